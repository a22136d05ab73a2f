/* Calls itself the rank that it is given, whoever it is; 1 if it is not let in. */
#include <pmix.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    pmix_proc_t self;
    (void)argc;
    setenv("PMIX_RANK", argv[1], 1);
    return PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
