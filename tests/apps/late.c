/* Ends while the thread of late_library.c goes on. */
#include "check.h"

void late_begin(void);

int main(void)
{
    late_begin();
    return 0;
}
