#!/usr/bin/env python3
"""The manual page, the completion of the shells and `make install`: made from the tables, they name every command and option that --help names."""
import re
import shutil
import subprocess

from harness import ROOT, Skip, Suite, equal, main, refused, true

SHELLS = ("bash", "zsh", "fish")


class Docs(Suite):
    def said(self, *words):
        done = self.command(*words)
        equal(done.code, 0, done.err)
        return done.out.decode()

    def commands(self):
        found = re.findall(r"^  sluice (bench job|\w+)", self.said("--help"), re.M)[:-1]     # but `sluice COMMAND --help`
        return [name for name in found if name != "bench job"] + ["bench job"]

    def options(self, command):
        return re.findall(r"^  (?:-\w, |    )--([\w-]+)", self.said(*command.split(), "--help"), re.M)

    def check_the_page_names_every_command_and_option(self):
        page = self.said("man").replace("\\-", "-")
        for command in self.commands():
            at = page.index(f".SS {command}")
            section = page[at:page.index(".S", at + 3)]
            for option in self.options(command):
                true(f"--{option}" in section, (command, option))

    def check_the_page_has_no_warnings(self):
        if not shutil.which("groff"):
            raise Skip("groff is not installed")
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=self.said("man").encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal((done.returncode, done.stderr.decode()), (0, ""))

    def complete(self, *line):
        script = self.said("completion", "bash") + f"""
COMP_WORDS=({" ".join(f"'{word}'" for word in line)}); COMP_CWORD={len(line) - 1}
_sluice; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        done = subprocess.run(["bash", "--norc", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal((done.returncode, done.stderr.decode()), (0, ""))
        return done.stdout.decode().split()

    def check_bash_completes_commands_options_and_values(self):
        equal(self.complete("sluice", "ru"), ["run"])
        equal(sorted(self.complete("sluice", "")), sorted([*self.commands()[:-1], "help"]))
        equal(sorted(self.complete("sluice", "run", "--")), sorted(["--" + name for name in self.options("run")] + ["--help"]))
        equal(self.complete("sluice", "run", "m", "--engine", ""), ["auto", "resident", "stream"])
        equal(self.complete("sluice", "run", "--engine", "=", "s"), ["stream"])
        equal(self.complete("sluice", "plan", "--engine", "="), ["auto", "resident", "stream"])
        true("--batches" in self.complete("sluice", "bench", "job", "--"), "bench job")
        equal(self.complete("sluice", "bench", ""), ["kernels", "job"])
        equal(self.complete("sluice", "completion", ""), ["bash", "zsh", "fish"])
        equal(self.complete("sluice", "run", "rows"), [])       # then the shell offers files

    def check_the_other_shells_take_their_scripts(self):
        missing = []
        for shell in SHELLS:
            script = self.said("completion", shell)
            for command in self.commands()[:-1]:
                true(command in script, (shell, command))
            if not shutil.which(shell):
                missing.append(shell)
                continue
            path = self.folder() / shell
            path.write_text(script)
            done = subprocess.run([shell, "-n", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            equal((done.returncode, done.stdout), (0, b""))
        if missing == list(SHELLS):
            raise Skip("no shell is installed")

    def check_plan_takes_all_options_of_run(self):
        equal(set(self.options("run")) - set(self.options("plan")), set())
        equal(set(self.options("plan")) - set(self.options("run")), {"json", "score"})

    def check_help_is_the_same_by_either_way(self):
        for command in self.commands():
            equal(self.said("help", *command.split()), self.said(*command.split(), "--help"), command)
        refused(self.command("help", "nothing"), 2, "no command nothing")

    def check_odd_usage_is_refused(self):
        for words in (("completion",), ("completion", "tcsh"), ("completion", "bash", "zsh"), ("man", "run"), ("man", "--json")):
            refused(self.command(*words), 2)

    def check_everything_is_installed_and_removed_again(self):
        place, build = self.folder(), self.sluice.rsplit("/", 1)[0]
        make = ["make", "-s", "-C", str(ROOT), "-o", "all", f"BUILD={build}", f"DESTDIR={place}", "PREFIX=/usr"]
        subprocess.run([*make, "install"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        equal(subprocess.run([place / "usr/bin/sluice", "--version"], stdout=subprocess.PIPE).stdout.decode(), self.said("--version"))
        equal((place / "usr/share/man/man1/sluice.1").read_text(), self.said("man"))
        equal((place / "usr/share/bash-completion/completions/sluice").read_text(), self.said("completion", "bash"))
        documents = place / "usr/share/doc/sluice"
        true((documents / "docs/manual.md").is_file(), "the manual")
        for name in ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (documents / "docs").glob("*.md"))):
            path = documents / name
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
                true((path.parent / link).exists(), f"{name} has a link to {link}")
        subprocess.run([*make, "uninstall"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        equal([str(path) for path in place.rglob("*") if not path.is_dir()], [])


if __name__ == "__main__":
    main(Docs)
