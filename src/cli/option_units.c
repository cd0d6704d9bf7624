/* Owns sizes and durations as people write them: a decimal number and a unit. Refuses signs,
 * exponents, other units, and what is beyond any machine. */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

/* A decimal number at the beginning of text; the rest into *rest. No sign, no exponent. */
static bool read_decimal(struct str text, double *value, struct str *rest) {
    char copy[64];
    size_t length = 0;
    while (length < text.len &&
           ((text.data[length] >= '0' && text.data[length] <= '9') || text.data[length] == '.'))
        length++;
    if (length == 0 || length >= sizeof copy || text.data[0] == '.')
        return false;
    memcpy(copy, text.data, length);
    copy[length] = '\0';
    char *end;
    *value = strtod(copy, &end);
    *rest = str_cut(text, length, text.len);
    return *end == '\0';
}

bool option_size(struct str text, uint64_t *bytes) {
    static const char units[] = "KMGT";
    double value;
    struct str rest;
    if (!read_decimal(text, &value, &rest))
        return false;
    double factor = 1;
    if (rest.len > 0) {
        char letter = rest.data[0];
        letter = letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
        const char *unit = letter != '\0' ? strchr(units, letter) : NULL;
        if (unit != NULL) {
            factor = (double)((uint64_t)1 << (10 * (unit - units + 1)));
            rest = str_cut(rest, 1, rest.len);
        }
        if (rest.len > 0 && !str_is(rest, "B") && !(unit != NULL && str_is(rest, "iB")))
            return false;
    }
    if (value * factor > SIZE_VALUE_MAX)
        return false;
    *bytes = (uint64_t)(value * factor);
    return true;
}

bool option_flops(struct str text, double *flops) {
    static const char units[] = "KMGTP";
    double value;
    struct str rest;
    if (!read_decimal(text, &value, &rest) || rest.len > 1)
        return false;
    const char *unit = rest.len == 1 && rest.data[0] != '\0' ? strchr(units, rest.data[0]) : NULL;
    if (rest.len == 1 && unit == NULL)
        return false;
    for (const char *at = units; unit != NULL && at <= unit; at++)
        value *= 1000;
    if (!(value >= 1 && value <= 1e18))
        return false;
    *flops = value;
    return true;
}

bool option_duration(struct str text, double *seconds) {
    double value;
    struct str rest;
    if (!read_decimal(text, &value, &rest) || rest.len > 1)
        return false;
    switch (rest.len == 1 ? rest.data[0] : 's') {
    case 's':
        break;
    case 'm':
        value *= 60;
        break;
    case 'h':
        value *= 3600;
        break;
    case 'd':
        value *= 86400;
        break;
    default:
        return false;
    }
    if (!(value > 0 && value < 1e9))
        return false;
    *seconds = value;
    return true;
}
