/* Private to backend/cpu: the kernels of few.h on AVX-512, for its row in the table of sets. */
#ifndef SLUICE_BACKEND_CPU_AVX512_FEW_H
#define SLUICE_BACKEND_CPU_AVX512_FEW_H

#include "backend/cpu/kernels.h"

/* cpu_kernels.few for 1 to AVX512_FEW_MAX tokens (formats that are decoded: panels are faster
 * beyond AVX512_FEW_DECODED_MAX): F, BW, DQ and VL beside AVX2, FMA and F16C. */
#define AVX512_FEW_MAX ((size_t)8)
#define AVX512_FEW_DECODED_MAX ((size_t)4)
void avx512_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);

#endif
