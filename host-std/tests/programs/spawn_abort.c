/* Proves that jobs that come from each other end together:
 *     spawn_abort child     a child calls MPI_Abort while the parents wait for it
 *     spawn_abort parent    parent 0 does while the children wait
 * Whoever gets past the waiting says so and exits with 65: no test accepts that. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int rank, number = 0;
    char *args[] = { NULL, NULL };

    MPI_Init(&argc, &argv);
    if (argc != 2)
        return 64;
    args[0] = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        if (rank == 1 && !strcmp(argv[1], "child"))
            MPI_Abort(MPI_COMM_WORLD, 43);
        MPI_Recv(&number, 1, MPI_INT, 0, 7, parent, MPI_STATUS_IGNORE);
    } else {
        MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        if (rank == 0 && !strcmp(argv[1], "parent"))
            MPI_Abort(MPI_COMM_WORLD, 43);
        MPI_Recv(&number, 1, MPI_INT, 0, 7, children, MPI_STATUS_IGNORE);
    }
    printf("rank %d got through\n", rank);
    return 65;
}
