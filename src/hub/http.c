/* Owns connections, redirects, and where the token goes. Refuses to print it: libcurl's own
 * messages do not hold headers. */
#include "hub/http.h"

#include "base/mem.h"
#include "hub/library.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REDIRECTS_MAX 10
#define CONNECT_SECONDS 20L
#define STALLED_SECONDS 30L /* below STALLED_BYTES a second for so long: broken */
#define STALLED_BYTES 100L
#define BUFFER_BYTES (512L << 10)
#define URL_BYTES_MAX ((size_t)16 << 10)

static struct {
    bool is_loaded;
    __typeof__(curl_global_init) *global_init;
    CURL *(*init)(void);
    void (*cleanup)(CURL *);
    void (*reset)(CURL *);
    CURLcode (*set)(CURL *, CURLoption, ...);
    CURLcode (*perform)(CURL *);
    CURLcode (*info)(CURL *, CURLINFO, ...);
    const char *(*describe)(CURLcode);
    struct curl_slist *(*append)(struct curl_slist *, const char *);
    void (*free_list)(struct curl_slist *);
} curl;
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct http {
    CURL *handle;
    bool (*should_stop)(void);
    const struct http_request *request; /* of the get in progress */
    struct http_answer *answer;
    bool has_begun; /* the sink */
};

static void load(void) {
    const struct library_function functions[] = {
        {"curl_global_init", &curl.global_init}, {"curl_easy_init", &curl.init},
        {"curl_easy_cleanup", &curl.cleanup},    {"curl_easy_reset", &curl.reset},
        {"curl_easy_setopt", &curl.set},         {"curl_easy_perform", &curl.perform},
        {"curl_easy_getinfo", &curl.info},       {"curl_easy_strerror", &curl.describe},
        {"curl_slist_append", &curl.append},     {"curl_slist_free_all", &curl.free_list},
    };
    curl.is_loaded =
        library_load("libcurl.so.4", functions, sizeof functions / sizeof functions[0]) &&
        curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

enum status http_new(bool (*should_stop)(void), struct http **out, struct error *err) {
    pthread_once(&once, load);
    if (!curl.is_loaded)
        return error_set(err, SL_ERR_ENV,
                         "libcurl.so.4, which downloads, cannot be loaded: install the package "
                         "libcurl4");
    struct http *http = mem_new(1, sizeof *http);
    if (http != NULL)
        http->handle = curl.init();
    if (http == NULL || http->handle == NULL) {
        mem_free(http);
        return error_memory(err, sizeof *http, "a connection");
    }
    http->should_stop = should_stop;
    *out = http;
    return SL_OK;
}

void http_free(struct http *http) {
    if (!http)
        return;
    curl.cleanup(http->handle);
    mem_free(http);
}

void http_add_path(struct buf *out, struct str path) {
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || strchr("-._~/", c) != NULL;
        if (is_plain && c != '\0')
            buf_add_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

/* ---- what libcurl calls */

/* The value of a header line if it has that name. */
static bool is_header(struct str line, const char *name, struct str *value) {
    size_t length = strlen(name);
    if (line.len <= length || strncasecmp(line.data, name, length) != 0 || line.data[length] != ':')
        return false;
    *value = str_trim(str_cut(line, length + 1, line.len));
    return true;
}

/* "bytes 300-999/1000", "bytes 300-999/\*" */
static void read_range(struct str value, struct http_answer *answer) {
    size_t dash = str_find(value, STR("-"), 0), slash = str_find(value, STR("/"), 0);
    if (!str_starts(value, STR("bytes ")) || dash == SIZE_MAX || slash == SIZE_MAX)
        return;
    answer->has_range = str_to_u64(str_cut(value, 6, dash), &answer->range_from);
    if (!str_to_u64(str_cut(value, slash + 1, value.len), &answer->range_total))
        answer->range_total = UINT64_MAX;
}

/* Each line of the headers; with a status line an answer begins anew (redirects, proxies). */
static size_t on_header(char *data, size_t size, size_t count, void *ctx) {
    struct http_answer *answer = ((struct http *)ctx)->answer;
    struct str line = {data, size * count}, value;
    uint64_t seconds;
    if (str_starts(line, STR("HTTP/"))) {
        answer->etag[0] = '\0';
        answer->has_range = false;
        answer->retry_after_seconds = 0;
    } else if (is_header(line, "ETag", &value) && value.len < sizeof answer->etag) {
        memcpy(answer->etag, value.data, value.len);
        answer->etag[value.len] = '\0';
    } else if (is_header(line, "Content-Range", &value)) {
        read_range(value, answer);
    } else if (is_header(line, "Retry-After", &value) && str_to_u64(value, &seconds)) {
        answer->retry_after_seconds = seconds < 3600 ? (double)seconds : 3600;
    }
    return line.len;
}

static bool begin(struct http *http) {
    if (http->has_begun)
        return true;
    http->has_begun = true;
    curl.info(http->handle, CURLINFO_RESPONSE_CODE, &http->answer->status);
    if (http->answer->status >= 300)
        return true;
    return http->request->sink.begin(http->request->sink.ctx, http->answer);
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
    struct http *http = ctx;
    const struct http_sink *sink = &http->request->sink;
    size_t bytes = size * count;
    bool is_taken = begin(http);
    if (is_taken && http->answer->status < 300)
        is_taken = sink->body(sink->ctx, data, bytes);
    if (is_taken)
        return bytes;
    http->answer->end = HTTP_REFUSED;
    return bytes + 1; /* no other number says that nothing was taken, also of an empty piece */
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    struct http *http = ctx;
    (void)a, (void)b, (void)c, (void)d;
    if (http->should_stop == NULL || !http->should_stop())
        return 0;
    http->answer->end = HTTP_STOPPED;
    return 1;
}

/* ---- requests */

/* "https://host:port" of a URL, by its letters alone; empty: it is none, or one that programs read
 * in different ways. */
static struct str origin_of(const char *url) {
    struct str text = str_from(url);
    size_t from = str_starts(text, STR("https://"))  ? sizeof "https://" - 1
                  : str_starts(text, STR("http://")) ? sizeof "http://" - 1
                                                     : 0;
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)url[i] <= ' ' || url[i] == '\\' || url[i] == 0x7f)
            return STR("");
    }
    size_t length = from + strcspn(url + from, "/?#");
    return from > 0 && length > from && text.len < URL_BYTES_MAX ? str_cut(text, 0, length)
                                                                 : STR("");
}

static bool is_secure(struct str origin) {
    return str_starts(origin, STR("https://"));
}

static void set_end(struct http_answer *answer, enum http_end end, const char *problem) {
    answer->end = end;
    snprintf(answer->problem, sizeof answer->problem, "%s", problem);
    str_clean(answer->problem);
}

static bool add_header(struct curl_slist **list, const char *name, const char *value) {
    struct buf line;
    buf_init(&line);
    buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *longer = line.has_failed ? NULL : curl.append(*list, line.data);
    buf_release(&line);
    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* One request, without redirects. */
static void perform(struct http *http, const char *url, bool sends_token) {
    const struct http_request *request = http->request;
    struct http_answer *answer = http->answer;
    CURL *handle = http->handle;
    struct curl_slist *headers = NULL;
    char bearer[1200], range[40];
    *answer = (struct http_answer){.end = HTTP_DONE};
    http->has_begun = false;
    bool is_set = add_header(&headers, "Accept-Encoding", "identity");
    if (sends_token) {
        int length = snprintf(bearer, sizeof bearer, "Bearer %s", request->token);
        is_set = is_set && length > 0 && (size_t)length < sizeof bearer &&
                 add_header(&headers, "Authorization", bearer);
    }
    snprintf(range, sizeof range, "%llu-", (unsigned long long)request->from);
    if (request->from > 0 && request->if_range[0] != '\0')
        is_set = is_set && add_header(&headers, "If-Range", request->if_range);
    curl.reset(handle); /* keeps its connections */
    is_set = is_set && curl.set(handle, CURLOPT_URL, url) == CURLE_OK &&
             curl.set(handle, CURLOPT_HTTPHEADER, headers) == CURLE_OK;
    curl.set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.set(handle, CURLOPT_USERAGENT, "sluice");
    curl.set(handle, CURLOPT_NOSIGNAL, 1L);
    curl.set(handle, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl.set(handle, CURLOPT_LOW_SPEED_LIMIT, STALLED_BYTES);
    curl.set(handle, CURLOPT_LOW_SPEED_TIME, STALLED_SECONDS);
    curl.set(handle, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl.set(handle, CURLOPT_HEADERFUNCTION, on_header);
    curl.set(handle, CURLOPT_HEADERDATA, http);
    curl.set(handle, CURLOPT_WRITEFUNCTION, on_body);
    curl.set(handle, CURLOPT_WRITEDATA, http);
    curl.set(handle, CURLOPT_NOPROGRESS, 0L);
    curl.set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl.set(handle, CURLOPT_XFERINFODATA, http);
    if (request->from > 0)
        curl.set(handle, CURLOPT_RANGE, range);
    CURLcode code = is_set ? curl.perform(handle) : CURLE_OUT_OF_MEMORY;
    if (code == CURLE_OK)
        curl.info(handle, CURLINFO_RESPONSE_CODE, &answer->status);
    if (code == CURLE_OK && !begin(http)) /* of an answer without a body */
        answer->end = HTTP_REFUSED;
    if (code != CURLE_OK && answer->end == HTTP_DONE) {
        bool is_wrong = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                        code == CURLE_PEER_FAILED_VERIFICATION;
        set_end(answer, is_wrong ? HTTP_WRONG : HTTP_BROKEN, curl.describe(code));
    }
    curl.free_list(headers);
}

/* Whether the answer goes on at another place; that place, NULL when it may not be gone to. */
static bool is_redirect(struct http *http, const char **place) {
    const struct http_answer *answer = http->answer;
    static const long statuses[] = {301, 302, 303, 307, 308};
    *place = NULL;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (answer->end == HTTP_DONE && answer->status == statuses[i]) {
            char *url = NULL;
            if (curl.info(http->handle, CURLINFO_REDIRECT_URL, &url) == CURLE_OK && url != NULL)
                *place = url;
            return true;
        }
    }
    return false;
}

void http_get(struct http *http, const struct http_request *request, struct http_answer *answer) {
    struct buf url;
    buf_init(&url);
    buf_add(&url, str_from(request->url));
    http->request = request;
    http->answer = answer;
    *answer = (struct http_answer){.end = HTTP_DONE};
    for (int hops = 0;; hops++) {
        const char *place;
        if (url.has_failed) {
            set_end(answer, HTTP_BROKEN, "out of memory");
            break;
        }
        struct str origin = origin_of(url.data), first = origin_of(request->url);
        if (origin.len == 0) {
            set_end(answer, HTTP_WRONG, "not an address of http or https");
            break;
        }
        if (is_secure(first) && !is_secure(origin)) {
            set_end(answer, HTTP_WRONG, "a redirect from https to http, which is not followed");
            break;
        }
        perform(http, url.data, request->token != NULL && str_equal(origin, first));
        if (!is_redirect(http, &place))
            break;
        if (place == NULL || hops == REDIRECTS_MAX) {
            set_end(answer, HTTP_WRONG,
                    place == NULL ? "a redirect to nowhere" : "more than 10 redirects");
            break;
        }
        struct buf next;
        buf_init(&next);
        buf_add(&next, str_from(place)); /* it is the handle's: gone with the next request */
        buf_release(&url);
        url = next;
    }
    buf_release(&url);
}
