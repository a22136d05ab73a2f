/* Calls MPI_Init, prints its rank and waits until a file exists.
 *
 *     alone FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank = 0, size = 0;
    if (argc != 2)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d\n", rank, size);
    fflush(stdout);
    while (access(argv[1], F_OK) != 0)
        usleep(10000);
    MPI_Finalize();
    return 0;
}
