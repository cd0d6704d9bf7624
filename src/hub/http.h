/* One GET over HTTP, by libcurl, which is loaded when the first connection is made: jobs neither
 * need nor load it. Proxies are those of the environment (http_proxy, https_proxy, no_proxy).
 *
 * Redirects are followed here, ten at most. The token goes with them as long as scheme, host and
 * port stay the same, and nowhere else; https never becomes http. One thread a connection. */
#ifndef SLUICE_HUB_HTTP_H
#define SLUICE_HUB_HTTP_H

#include "base/str.h"

struct http;

enum http_end {
    HTTP_DONE,    /* the answer is whole; status says which */
    HTTP_BROKEN,  /* the connection, or none: worth another try */
    HTTP_REFUSED, /* the sink took no more */
    HTTP_STOPPED, /* should_stop */
    HTTP_WRONG    /* what no other try mends: a bad URL, too many redirects, a downgrade */
};

struct http_answer {
    enum http_end end;
    long status;
    char etag[256]; /* as sent, with its quotes; "" when there is none */
    bool has_range; /* a Content-Range, whatever the status */
    uint64_t range_from, range_total;
    double retry_after_seconds; /* 0: not told */
    char problem[200];          /* of HTTP_BROKEN and HTTP_WRONG */
};

/* Gets the body of an answer below 300, no other's; each false ends it as HTTP_REFUSED. */
struct http_sink {
    bool (*begin)(void *ctx, const struct http_answer *answer); /* before the first byte */
    bool (*body)(void *ctx, const void *data, size_t bytes);
    void *ctx;
};

struct http_request {
    const char *url;
    const char *token;    /* NULL: none */
    uint64_t from;        /* first byte wanted; with a Range header unless 0 */
    const char *if_range; /* an etag: all of it, if the file is another one; "" for none */
    struct http_sink sink;
};

/* SL_ERR_ENV when the library is not there. should_stop may be NULL; it is asked from the thread
 * that waits in http_get. */
enum status http_new(bool (*should_stop)(void), struct http **out, struct error *err);
void http_free(struct http *http); /* accepts NULL */
void http_get(struct http *http, const struct http_request *request, struct http_answer *answer);
/* Appends a path with all bytes escaped that a URL does not have as they are; "/" stays. */
void http_add_path(struct buf *out, struct str path);

#endif
