/* Prints which file the program's socket function is in. */
#include "check.h"
#include <dlfcn.h>

int main(void)
{
    Dl_info found;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "socket"), &found) != 0);
    puts(found.dli_fname);
    return 0;
}
