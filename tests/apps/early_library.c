/* A library whose constructor uses sockets before the preloaded library's own constructor has run. */
#include "check.h"

int early_pair[2];

__attribute__((constructor)) static void early(void)
{
    tcp_pair(early_pair);
    CHECK(passes(early_pair[0], early_pair[1]));
}
