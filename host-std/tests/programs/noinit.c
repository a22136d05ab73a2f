/* Is linked with MPI and calls it only if it is given a word:
 *     noinit [WORD]
 * Without one it is what a program looks like to its launcher that has not found it. */
#include <mpi.h>

int main(int argc, char **argv)
{
    if (argc > 1) {
        MPI_Init(&argc, &argv);
        MPI_Finalize();
    }
    return 0;
}
