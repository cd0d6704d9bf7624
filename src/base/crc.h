/* CRC-32C (Castagnoli: reflected polynomial 0x82F63B78, as in RFC 3720), fast enough to watch over
 * what a drive reads: with the processor's instruction where it has one (SSE4.2; the CRC extension
 * of aarch64), else with tables. Any thread. */
#ifndef SLUICE_BASE_CRC_H
#define SLUICE_BASE_CRC_H

#include "base/status.h"

/* The checksum of bytes whose first part has the checksum `crc` (0: there is none). */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);
/* The same with tables alone; the reference. */
uint32_t crc32c_tables(uint32_t crc, const void *bytes, size_t count);

#endif
