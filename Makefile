# sluice: `make` builds, `make demo` shows, `make check` tests. See README.md.
#
# One archive a layer; a test links its own layer and those left of it alone, so a wrong include that
# tidy.py misses does not link. BUILD and CC choose another configuration beside the first.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build/$(notdir $(CC))
LAYERS := base io tensor text weights backend model engine plan job hub cli

WARN := -Wall -Wextra -Wconversion -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
# -O3 for the loops over lanes; products and sums may not be contracted or reordered.
OPT ?= -O3 -g
CPPFLAGS += -D_GNU_SOURCE -Isrc
CFLAGS += -std=c17 $(OPT) $(WARN) -ffp-contract=off -fno-math-errno -pthread $(SANITIZE)
LDFLAGS += -pthread $(SANITIZE)
LDLIBS += -lpcre2-8 -luring -lsqlite3 -lm
# Libraries of another machine, unpacked by tools/cross.sh.
ifneq ($(CROSS_ROOT),)
CPPFLAGS += -isystem $(CROSS_ROOT)/usr/include -isystem $(CROSS_ROOT)/usr/include/aarch64-linux-gnu
LDFLAGS += -L$(CROSS_ROOT)/usr/lib/aarch64-linux-gnu -Wl,-rpath,$(abspath $(CROSS_ROOT))/usr/lib/aarch64-linux-gnu
endif

sources = $(filter-out %_test.c %_fuzz.c %_bench.c src/cli/main.c,$(wildcard src/$(1)/*.c src/$(1)/*/*.c))
objects = $(patsubst src/%.c,$(BUILD)/%.o,$(call sources,$(1)))
# The archives of a layer and of all left of it, rightmost first, as the linker wants them.
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
upto = $(wordlist 1,$(words $(shell set -- $(LAYERS); for l; do echo $$l; [ $$l = $(1) ] && break; done)),$(LAYERS))
archives = $(foreach l,$(call reverse,$(call upto,$(1))),$(BUILD)/lib/$(l).a)

TESTS := $(patsubst src/%.c,$(BUILD)/%,$(wildcard src/*/*_test.c src/*/*/*_test.c))

JOBS ?= $(shell nproc)
# Short lines; V=1 shows the commands.
ifeq ($(V),)
say = @echo "  $(1)	$(patsubst $(BUILD)/%,%,$@)";
MAKEFLAGS += --no-print-directory
endif

.PHONY: all tests cross demo check check-deep fuzz bench install uninstall deb clean
all: $(BUILD)/sluice

$(BUILD)/sluice: $(BUILD)/cli/main.o $(call archives,cli)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

define LAYER_RULES
$(BUILD)/lib/$(1).a: $(call objects,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR)$(AR) rcs $$@ $$^
$(patsubst src/%.c,$(BUILD)/%,$(wildcard src/$(1)/*_test.c src/$(1)/*/*_test.c)): $(BUILD)/%: $(BUILD)/%.o $(call archives,$(1))
	$$(call say,LD)$$(CC) $$(LDFLAGS) -o $$@ $$^ -lcmocka $$(LDLIBS)
$(patsubst src/%.c,$(BUILD)/%,$(wildcard src/$(1)/*_bench.c)): $(BUILD)/%: $(BUILD)/%.o $(call archives,$(1))
	$$(call say,LD)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
$(patsubst src/%.c,$(BUILD)/%,$(wildcard src/$(1)/*_fuzz.c)): $(BUILD)/%: $(BUILD)/%.o $(call archives,$(1))
	$$(call say,LD)$$(CC) $$(LDFLAGS) -fsanitize=fuzzer -o $$@ $$^ $$(LDLIBS)
endef
$(foreach l,$(LAYERS),$(eval $(call LAYER_RULES,$(l))))

# The commit, for records of measurements; a file of its own, so that nothing else is compiled again.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
$(BUILD)/cli/version.o: $(BUILD)/commit
$(BUILD)/cli/version.o: CPPFLAGS += -DSL_COMMIT='"$(COMMIT)"'
FORCE:

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

tests: $(TESTS)

# The program and the tests for aarch64, to be run by qemu-aarch64 -L /usr/aarch64-linux-gnu.
CROSS := build/aarch64
cross:
	tools/cross.sh $(CROSS)/root
	$(MAKE) -j$(JOBS) CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar BUILD=$(CROSS) \
	    CROSS_ROOT=$(CROSS)/root all tests

# Installs what is missing, builds, fetches a real instruct model and answers real rows with it.
demo:
	tools/deps.sh build
	$(MAKE) -j$(JOBS) all
	tools/demo.sh $(BUILD)/sluice .demo

# The same set-up, then every test; the last line is `N passed, N failed, N skipped`.
check:
	tools/deps.sh check
	$(MAKE) -j$(JOBS) CC=gcc BUILD=build/gcc all tests
	$(MAKE) -j$(JOBS) CC=clang BUILD=build/clang all tests
	python3 tools/check.py --build build/gcc --also clang=build/clang

# Sanitizers over the unit tests, the promises at full size, and the program of aarch64 under an
# emulator where that can be had (about 25 minutes).
check-deep:
	tools/deps.sh deep
	$(MAKE) -j$(JOBS) CC=clang BUILD=build/asan OPT='-O1 -g' \
	    SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all' all tests
	$(MAKE) -j$(JOBS) CC=clang BUILD=build/tsan OPT='-O1 -g' SANITIZE=-fsanitize=thread all tests
	$(MAKE) -j$(JOBS) CC=gcc BUILD=build/gcc all tests
	if tools/cross.sh $(CROSS)/root; then $(MAKE) cross; else rm -f $(CROSS)/sluice; fi
	python3 tools/check.py --deep --build build/gcc --also asan=build/asan --also tsan=build/tsan \
	    --aarch64 neon=$(CROSS)

# libFuzzer targets, FUZZ_SECONDS each, starting from the corpora in test/corpus.
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst src/%.c,build/fuzz/%,$(wildcard src/*/*_fuzz.c))
fuzz:
	tools/deps.sh deep
	$(MAKE) -j$(JOBS) CC=clang BUILD=build/fuzz OPT='-O1 -g' \
	    SANITIZE='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all' $(FUZZERS)
	tools/fuzz.sh $(FUZZ_SECONDS) $(FUZZERS)

# Program, manual page, completion and documents below PREFIX; DESTDIR stands before it for packages.
PREFIX ?= /usr/local
PLACE = $(DESTDIR)$(PREFIX)
install: all
	install -d $(PLACE)/bin $(PLACE)/share/man/man1 $(PLACE)/share/doc/sluice/docs/measurements
	install -d $(PLACE)/share/bash-completion/completions $(PLACE)/share/zsh/site-functions
	install -d $(PLACE)/share/fish/vendor_completions.d
	install -m 755 $(BUILD)/sluice $(PLACE)/bin/sluice
	$(BUILD)/sluice man > $(PLACE)/share/man/man1/sluice.1
	$(BUILD)/sluice completion bash > $(PLACE)/share/bash-completion/completions/sluice
	$(BUILD)/sluice completion zsh > $(PLACE)/share/zsh/site-functions/_sluice
	$(BUILD)/sluice completion fish > $(PLACE)/share/fish/vendor_completions.d/sluice.fish
	install -m 644 README.md CONTRIBUTING.md LICENSE $(PLACE)/share/doc/sluice
	install -m 644 $(wildcard docs/*.md) docs/report.png $(PLACE)/share/doc/sluice/docs
	install -m 644 $(wildcard docs/measurements/*.md) $(PLACE)/share/doc/sluice/docs/measurements

uninstall:
	rm -f $(PLACE)/bin/sluice $(PLACE)/share/man/man1/sluice.1
	rm -f $(PLACE)/share/bash-completion/completions/sluice
	rm -f $(PLACE)/share/zsh/site-functions/_sluice
	rm -f $(PLACE)/share/fish/vendor_completions.d/sluice.fish
	rm -rf $(PLACE)/share/doc/sluice

# build/sluice_VERSION_ARCH.deb, for the machine that builds it and Debian releases with its libraries.
deb: all
	rm -rf build/deb
	$(MAKE) install DESTDIR=$(CURDIR)/build/deb PREFIX=/usr
	tools/deb.sh build/deb build

bench: $(patsubst src/%.c,$(BUILD)/%,$(wildcard src/*/*_bench.c)) all
	bench/run.sh $(BUILD)

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
