/* Proves that MPI_Comm_spawn_multiple makes one job of two programs, each with hints and arguments of its own,
 * and that the job knows which program is which.
 *     spawn_multiple FOLDER */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int child(MPI_Comm parent, char **argv)
{
    int rank, size, *appnum, flag;
    char folder[4096];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    if (!getcwd(folder, sizeof folder))
        return 65;
    printf("%s: child %d of %d, program %d, in %s\n", argv[1], rank, size, flag ? *appnum : -1, folder);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Info hints[2];
    char *first[] = { "first", NULL }, *second[] = { "second", NULL };
    char **args[] = { first, second }, *programs[2];
    int counts[] = { 1, 2 }, codes[3] = { -1, -1, -1 }, size, *universe, flag;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argv);
    if (argc != 2)
        return 64;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    programs[0] = programs[1] = argv[0];
    MPI_Info_create(&hints[0]);
    MPI_Info_set(hints[0], "wdir", argv[1]);
    MPI_Info_set(hints[0], "no_such_hint", "x");
    MPI_Info_create(&hints[1]);
    MPI_Info_set(hints[1], "host", "localhost");
    MPI_Comm_spawn_multiple(2, programs, args, counts, hints, 0, MPI_COMM_WORLD, &children, codes);
    MPI_Comm_remote_size(children, &size);
    printf("universe %d, %d children, codes %d %d %d\n", flag ? *universe : -1, size, codes[0],
           codes[1], codes[2]);
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    return 0;
}
