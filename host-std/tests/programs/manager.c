/* The manager of the MPI standard's example: asks how many processes there may be and spawns as many workers as
 * are left, which report their ranks. Where the launcher reports no number, the user says it.
 *     manager WORKERS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, workers;
    int size, *universe, flag, count, sum = 0, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Reduce(&rank, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    count = flag ? *universe - size : argc > 1 ? atoi(argv[1]) : 0;
    if (count <= 0) {
        printf("no room to start workers\n");
        MPI_Finalize();
        return 3;
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &workers, MPI_ERRCODES_IGNORE);
    MPI_Reduce(NULL, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, workers);
    if (rank == 0)
        printf("%d workers say %d\n", count, sum);
    MPI_Comm_disconnect(&workers);
    MPI_Finalize();
    return 0;
}
