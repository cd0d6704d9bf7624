/* The commit that the Makefile found when this file was compiled, which it is again when that
 * changes. */
#include "cli/cmd.h"

const char *cmd_commit(void) {
    return SL_COMMIT;
}
