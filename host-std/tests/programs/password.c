/* Asks for a password as programs do that want one from a person: at the terminal, if there is one. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    const char *word = getpass("password: ");
    printf("rank %s got '%s'\n", getenv("PMI_RANK"), word ? word : "");
    return 0;
}
