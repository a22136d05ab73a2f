/* Proves that MPI_Comm_spawn works: parents and children exchange numbers in both directions.
 *     spawn CHILDREN         each of the children adds its rank to what the parents send
 *     spawn CHILDREN missing asks for a program that is not there; the error comes back and life goes on
 *     spawn CHILDREN KEY VALUE the children are started with this info
 *     spawn CHILDREN program NAME the children are this program by another name
 * The children are this program with the argument "child" and one that is hard to pass on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *odd = "a b=c  d";

static int child(MPI_Comm parent, int argc, char **argv)
{
    int rank, size, parents, sum, mine;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parent, &parents);
    if (argc != 3 || strcmp(argv[2], odd)) {
        fprintf(stderr, "child %d got %d arguments\n", rank, argc);
        return 65;
    }
    MPI_Bcast(&mine, 1, MPI_INT, 0, parent);
    mine += rank;
    MPI_Reduce(&mine, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2)
        return 66;
    printf("child %d of %d has %d parents\n", rank, size, parents);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Info info = MPI_INFO_NULL;
    int rank, count, error, sum = 0, hundred = 100;
    char *args[] = { "child", (char *)odd, NULL };
    char *program;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    if (argc < 2) {
        fprintf(stderr, "usage: spawn CHILDREN [missing | KEY VALUE | program NAME]\n");
        return 64;
    }
    count = atoi(argv[1]);
    program = argc == 3 ? "./no/such/program" : argv[0];
    if (argc > 3 && !strcmp(argv[2], "program")) {
        program = argv[3];
    } else if (argc > 3) {
        MPI_Info_create(&info);
        MPI_Info_set(info, argv[2], argv[3]);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    error = MPI_Comm_spawn(program, args, count, info, 0, MPI_COMM_WORLD, &children,
                           MPI_ERRCODES_IGNORE);
    if (error != MPI_SUCCESS) {
        printf("parent %d was refused\n", rank);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    MPI_Bcast(&hundred, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    MPI_Reduce(NULL, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    if (rank == 0)
        printf("the children say %d\n", sum);
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    return 0;
}
