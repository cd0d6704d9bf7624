/* Feeds row_parse a line. Any answer will do; a crash, a leak, or an error row without an id and a
 * code will not. */
#include "job/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct settings settings = {.max_tokens = 512, .top_p = 1, .logprobs = -1};
    struct row row;
    struct error err = {0};
    struct buf unknown;
    buf_init(&unknown);
    struct str line = {(const char *)data, size};
    enum status status = row_parse(line, 3, &settings, &row, &unknown, &err);
    must(status == SL_OK || status == SL_ERR_ROW);
    must(row.id_json.len > 0);
    must(row.code != NULL);
    must(status == SL_OK || err.text[0] != '\0');
    must(utf8_valid_len(row.id_json) == row.id_json.len);
    if (status == SL_OK) {
        must(row.max_tokens >= 1);
        must(row.stop_count <= SL_STOPS_MAX);
        must(row.top_logprobs <= SL_TOP_LOGPROBS_MAX);
        must(utf8_valid_len(row.prompt) == row.prompt.len);
    }
    row_release(&row);
    buf_release(&unknown);
    return 0;
}
