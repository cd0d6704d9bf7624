/* Fuzz target: hostile texts through four tokenizers that work. The first byte chooses one, the
 * rest is the text. Ids must be in the vocabulary and the same twice; a decoding must be UTF-8 and,
 * where the tokenizer loses nothing, the text itself; where no special token may cover any byte,
 * none must come out. */
#include "base/mem.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_KINDS 4u

#define ADDED(id, text, more)                                                                      \
    "{\"id\":" #id ",\"content\":\"" text "\",\"single_word\":false,\"lstrip\":false,"             \
    "\"rstrip\":false,\"normalized\":false," more "}"

static struct tokenizer *kinds[FUZZ_KINDS];

/* The byte-level spelling of a byte, as GPT-2's bytes_to_unicode has it. */
static uint32_t spell(uint32_t byte) {
    uint32_t unprintable = 0;
    for (uint32_t b = 0; b <= byte; b++) {
        bool prints = (b > 32 && b < 127) || (b > 160 && b != 173);
        if (b == byte && prints)
            return byte;
        unprintable += !prints;
    }
    return 255 + unprintable;
}

static void add_byte_words(struct buf *json) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        struct buf word;
        buf_init(&word);
        buf_add_utf8(&word, spell(byte));
        bool is_escaped = byte == '"' || byte == '\\';
        buf_printf(json, "\"%s%s\":%u,", is_escaped ? "\\" : "", word.data, byte);
        buf_release(&word);
    }
}

static void add_byte_level(struct buf *json, const char *normalizer, const char *pre) {
    buf_printf(json,
               "{\"added_tokens\":[" ADDED(261, "<s>", "\"special\":true") "," ADDED(
                   262, "<t>", "\"special\":false") "],\"normalizer\":%s,\"pre_tokenizer\":%s,"
                                                    "\"post_processor\":null,"
                                                    "\"decoder\":{\"type\":\"ByteLevel\"},"
                                                    "\"model\":{\"type\":\"BPE\",\"vocab\":{",
               normalizer, pre);
    add_byte_words(json);
    buf_printf(json, "\"th\":256,\"the\":257,\"Ġa\":258,\"aa\":259,\"aaa\":260},"
                     "\"merges\":[\"t h\",\"th e\",\"Ġ a\",\"a a\",\"aa a\"]}}");
}

static void add_fallback(struct buf *json) {
    buf_printf(
        json,
        "{\"added_tokens\":[" ADDED(
            261, "<s>",
            "\"special\":true") "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                                "{\"type\":\"Prepend\",\"prepend\":\"▁\"},{\"type\":\"Replace\","
                                "\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},"
                                "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":"
                                "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                                "\"pattern\":{\"String\":\"▁\"},\"content\":\" \"},"
                                "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                                "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
                                "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                                "\"fuse_unk\":true,\"vocab\":{");
    for (uint32_t byte = 0; byte < 256; byte++)
        buf_printf(json, "\"<0x%02X>\":%u,", byte, byte);
    buf_printf(json, "\"▁\":256,\"a\":257,\"▁a\":258,\"aa\":259,\"▁▁\":260},"
                     "\"merges\":[\"▁ a\",\"a a\",\"▁ ▁\"]}}");
}

static void add_awkward(struct buf *json) {
    buf_printf(
        json,
        "{\"added_tokens\":["
        "{\"id\":8,\"content\":\"<S>\",\"special\":true,\"normalized\":true},"
        "{\"id\":9,\"content\":\"<l>\",\"special\":false,\"normalized\":true,\"lstrip\":true},"
        "{\"id\":10,\"content\":\"<r>\",\"special\":true,\"normalized\":false,\"rstrip\":true},"
        "{\"id\":11,\"content\":\"bab\",\"special\":true,\"normalized\":true,\"single_word\":true}]"
        ","
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKD\"},"
        "{\"type\":\"Lowercase\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},"
        "\"content\":\"bab\"},{\"type\":\"StripAccents\"}]},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}"
        ","
        "{\"type\":\"Digits\",\"individual_digits\":false},{\"type\":\"Punctuation\"},"
        "{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"first\"}]},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"▁\","
        "\"prepend_scheme\":\"first\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\","
        "\"fuse_unk\":true,\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"▁\":3,\"<\":4,\"s\":5,\"▁a\":6,"
        "\"bb\":7},\"merges\":[\"▁ a\",\"b b\"]}}");
}

static const struct tokenizer *get(unsigned kind) {
    struct buf json;
    if (kinds[kind] != NULL)
        return kinds[kind];
    buf_init(&json);
    switch (kind) {
    case 0:
        add_byte_level(&json, "null", "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
        break;
    case 1:
        add_byte_level(
            &json, "{\"type\":\"NFC\"}",
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
            "\"Regex\":\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}"
            "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)"
            "|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}");
        break;
    case 2:
        add_fallback(&json);
        break;
    default:
        add_awkward(&json);
    }
    must(tokenizer_from_json(buf_str(&json), "fuzz", &kinds[kind], NULL) == SL_OK);
    buf_release(&json);
    return kinds[kind];
}

static void check_decoding(const struct tokenizer *tokenizer, unsigned kind, struct str text,
                           const struct ids *ids) {
    struct buf back, wanted;
    buf_init(&back);
    buf_init(&wanted);
    must(tokenizer_decode(tokenizer, ids->items, ids->count, false, &back, NULL) == SL_OK);
    must(utf8_valid_len(buf_str(&back)) == back.len);
    utf8_add_lossy(&wanted, text);
    bool is_lossless = kind == 0 || (kind == 2 && str_find(text, STR("<s>"), 0) == SIZE_MAX &&
                                     str_find(text, STR("▁"), 0) == SIZE_MAX);
    if (is_lossless)
        must(str_equal(buf_str(&back), buf_str(&wanted)));
    buf_release(&back);
    buf_release(&wanted);
}

static void check_plain(const struct tokenizer *tokenizer, struct str text) {
    struct ids ids = {0};
    size_t *places = NULL, cap = 0;
    struct encode_options options = {.plain_count = text.len};
    must(mem_grow((void **)&places, &cap, text.len + 1, sizeof *places));
    for (size_t i = 0; i < text.len; i++)
        places[i] = i;
    options.plain = places;
    struct error err = {0};
    enum status status = tokenizer_encode(tokenizer, text, &options, &ids, &err);
    must(status == SL_OK || (status == SL_ERR_ROW && err.text[0] != '\0'));
    for (size_t i = 0; i < ids.count; i++)
        must(!tokenizer_is_special(tokenizer, ids.items[i]));
    ids_release(&ids);
    mem_free(places);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    unsigned kind = data[0] % FUZZ_KINDS;
    const struct tokenizer *tokenizer = get(kind);
    struct str text = {(const char *)data + 1, size - 1};
    const struct encode_options options = {0};
    struct ids ids = {0}, again = {0};
    must(tokenizer_encode(tokenizer, text, &options, &ids, NULL) == SL_OK);
    must(tokenizer_encode(tokenizer, text, &options, &again, NULL) == SL_OK);
    must(ids.count == again.count);
    for (size_t i = 0; i < ids.count; i++)
        must(ids.items[i] == again.items[i] && ids.items[i] < tokenizer_vocab_size(tokenizer));
    check_decoding(tokenizer, kind, text, &ids);
    if (utf8_valid_len(text) == text.len)
        check_plain(tokenizer, text);
    ids_release(&ids);
    ids_release(&again);
    return 0;
}
