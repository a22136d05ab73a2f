/* A rank in C, the same on every machine of this directory, and what it needs of its machine. */
#ifndef RANK_H
#define RANK_H

#include "pmi_client.h"

/* Functions of the machine: text on the debugger's console, and the end of the run. */
void print(const char *text);
_Noreturn void finish(int is_good);

/* Takes part in a job once, over a serial line: greets, puts a card, and prints the cards of all ranks. The process id
 * follows the program's name on the debugger's command line. */
_Noreturn void run(const struct pmi_client_link *line);

#endif
