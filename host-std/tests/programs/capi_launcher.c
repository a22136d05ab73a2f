/* The example of a launcher in C, where the tests find their programs. */
#include "../../../examples/embedded-server/c/launcher.c"
