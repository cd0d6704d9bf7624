/* Owns the table of named pre-tokenizers. The names are those that llama.cpp's converter writes;
 * the regexes are those of the published tokenizer.json files of the models behind the names
 * (llama.cpp's src/llama-vocab.cpp quotes most of them). Refuses names that it does not have:
 * another pre-tokenizer in the place of an unknown one would give other ids and no message. */
#include "text/vocab_pre.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PUNCTUATION " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define LLAMA3 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" PUNCTUATION "|" SPACES
#define QWEN2 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" PUNCTUATION "|" SPACES
#define QWEN35                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                                 \
                 "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail)                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" tail
#define TEKKEN CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define GPT4O CASED(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3                                                                                  \
    ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                    \
                      "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define CJK_DEEPSEEK3 "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define CJK_DEEPSEEK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* DeepSeek LLM's letters: those with a case, as its file spells them out. */
#define DEEPSEEK_LETTERS                                                                           \
    "[\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"         \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}-\\x{377}"        \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"                  \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"      \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}-\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"        \
    "\\x{2cf2}-\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                 \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+"
#define DEEPSEEK_PUNCTUATION                                                                       \
    "[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}"                                                \
    "\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define BLOOM " ?[^(\\s|[.,!?…。，、।۔،])]+"
#define EXAONE_MOE                                                                                 \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "           \
                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SPACES_JAIS2                                                                               \
    "\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)"  \
    "|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define YOUTU_PUNCTUATION                                                                          \
    "[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}"           \
    "\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+"
#define YOUTU_SCRIPTS                                                                              \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|" YOUTU_PUNCTUATION                                 \
    "|[\\x{3105}-\\x{312f}]+|[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"

static const struct vocab_pre table[] = {
    {.names =
         " gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
         "gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4 ",
     .steps = {SL_PRE_GPT2}},
    {.names = " smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ",
     .steps = {SL_PRE_DIGITS, SL_PRE_GPT2}},
    {.names = " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     .steps = {LLAMA3},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = " dbrx smaug-bpe glm4 chatglm-bpe ", .steps = {LLAMA3}},
    /* Qwen 2 and 3 normalize to NFC; the file format has no place to say so. */
    {.names = " qwen2 deepseek-r1-qwen kormo f2llmv2 ", .steps = {QWEN2}, .normalizes_nfc = true},
    {.names = " qwen35 ", .steps = {QWEN35}},
    {.names = " stablelm2 hunyuan megrez solar-open grok-2 ", .steps = {QWEN2}},
    {.names = " deepseek-llm ",
     .steps = {"[\\r\\n]", "\\s?" DEEPSEEK_LETTERS, "\\s?" DEEPSEEK_PUNCTUATION, "\\s+$",
               CJK_DEEPSEEK, SL_PRE_DIGITS}},
    {.names = " deepseek-coder ",
     .steps = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_DEEPSEEK, SL_PRE_DIGITS}},
    {.names = " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     .steps = {"\\p{N}{1,3}", CJK_DEEPSEEK3, DEEPSEEK3}},
    {.names = " falcon ",
     .steps = {SL_PRE_PUNCTUATION, SL_PRE_GPT2, SL_PRE_DIGITS "+", "[0-9][0-9][0-9]"},
     .spelled_from = 2},
    {.names = " tekken ", .steps = {TEKKEN}, .ignores_merges = true, .adds_bos = true},
    {.names = " gpt-4o llama4 kanana2 talkie minimax-m2 ", .steps = {GPT4O}},
    {.names = " granite-embed-multi-97m ", .steps = {GPT4O}, .ignores_merges = true},
    {.names = " tiny_aya cohere2moe ", .steps = {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}},
    {.names = " kimi-k2 ",
     .steps = {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTIONS
               "?|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*" CONTRACTIONS
               "?|\\p{N}{1,3}|" PUNCTUATION "|" SPACES}},
    {.names = " bailingmoe bailingmoe2 llada-moe ",
     .steps = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
               "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = " seed-coder ",
     .steps = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| "
                            "?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}},
    {.names = " exaone-moe ", .steps = {EXAONE_MOE}},
    {.names = " bloom gpt3-finnish poro-chat ", .steps = {BLOOM}},
    {.names = " viking ", .steps = {BLOOM, SL_PRE_DIGITS}},
    {.names = " jais-2 ",
     .steps = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" PUNCTUATION
                            "|" SPACES_JAIS2}},
    {.names = " minicpm5 ",
     .steps = {"\\p{N}{1,3}",
               CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|" PUNCTUATION "|" SPACES},
     .ignores_merges = true},
    {.names = " youtu ",
     .steps = {YOUTU_SCRIPTS,
               CASED(CONTRACTIONS "?") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
     .ignores_merges = true},
    {.names = " ufakzeka ",
     .steps = {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" PUNCTUATION "|" SPACES}},
    {.names = " laguna ", .steps = {"[^\\n]+|[\\n]+", QWEN2}},
    {.names = " spark2_5 ",
     .steps = {"\\p{N}{1,3}", CJK_DEEPSEEK3,
               ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                                 "?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
               "\\p{N}"}},
    {.names = " chameleon ",
     .steps = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
               SL_PRE_DIGITS, "[\\p{P}!-/:-@\\[-`{-~]", SL_PRE_GPT2},
     .adds_bos = true},
    {.names = " default ",
     .steps = {"[\\p{P}\\$\\+<=>\\^~\\|]+", SL_PRE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

const struct vocab_pre *vocab_pre_find(struct str name) {
    if (name.len == 0 || str_find(name, STR(" "), 0) != SIZE_MAX)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct str names = str_from(table[i].names);
        size_t at = str_find(names, name, 0);
        while (at != SIZE_MAX) {
            if (names.data[at - 1] == ' ' && names.data[at + name.len] == ' ')
                return &table[i];
            at = str_find(names, name, at + 1);
        }
    }
    return NULL;
}
