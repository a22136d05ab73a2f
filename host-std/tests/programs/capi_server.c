/* Every function of pmi_server.h, with clients in this process that write PMI-1 by hand. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pmi_server.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition) \
    if (!(condition)) \
    return fprintf(stderr, "line %d: %s\n", __LINE__, #condition), 1

void pmi_capi_inject_panic(void);

static struct {
    int aborts, ends, finalized, stuck, spawns, gone, code, nested;
    uint64_t spawn;
    char arguments[64], pairs[64], names[64];
    uint64_t lookup;
} seen;

static void on_spawn(pmi_server *server, void *context, const pmi_server_spawn *spawn) {
    const pmi_server_program *program = spawn->programs;
    seen.spawns += context == &seen && spawn->program_count == 1 && program->processes == 2;
    seen.spawn = spawn->id;
    for (int i = 0; program->arguments[i]; i++)
        strcat(strcat(seen.arguments, program->arguments[i]), " ");
    for (int i = 0; i < spawn->preput_count; i++)
        strcat(strcat(seen.pairs, spawn->preputs[i].key), spawn->preputs[i].value);
    for (int i = 0; i < program->info_count; i++)
        strcat(strcat(seen.pairs, program->info[i].key), program->info[i].value);
    /* These three would begin a second delivery, or free the caller. */
    seen.nested = pmi_server_step(server) && pmi_server_run(server) && pmi_server_free(server);
}

static void on_abort(pmi_server *server, void *context, uint32_t job, int rank, int code, int is_whole_job,
                     const char *message) {
    (void)server, (void)job;
    seen.aborts += context == &seen && rank == 1 && is_whole_job && message;
    seen.code = code;
}

static void on_end(pmi_server *server, void *context, uint32_t job, int rank, int is_finalized) {
    (void)server, (void)context, (void)job, (void)rank;
    seen.ends++, seen.finalized += is_finalized;
}

static void on_stuck(pmi_server *server, void *context, uint32_t job, int rank) {
    (void)server, (void)context, (void)job;
    seen.stuck++, seen.gone = rank;
}

/* Publications are answered at once, lookups later. */
static void on_name(pmi_server *server, void *context, const pmi_server_name *name) {
    char text[64];
    snprintf(text, sizeof text, "%d:%d:%s:%s ", name->operation, name->rank, name->service,
             name->port ? name->port : "-");
    strcat(seen.names, text);
    if (name->operation == PMI_SERVER_LOOKUP)
        seen.lookup = name->id;
    else
        pmi_server_answer_name(server, name->id, context == &seen ? PMI_SERVER_SUCCESS : PMI_SERVER_FAIL, NULL);
}

/* What a client has received. */
static const char *received(int fd) {
    static char text[4096];
    ssize_t got = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    return text[got < 0 ? 0 : got] = 0, text;
}

/* Sends a line when the server can be polled for it, and returns the answer. */
static const char *answer(pmi_server *server, int fd, const char *line) {
    struct pollfd ready = {.events = POLLIN};
    size_t len = strlen(line);
    if (pmi_server_fd(server, &ready.fd) || write(fd, line, len) != (ssize_t)len)
        return "";
    if (poll(&ready, 1, 10000) != 1 || pmi_server_step(server))
        return "";
    return received(fd);
}

#define INIT "cmd=init pmi_version=1 pmi_subversion=1\n"
#define SPAWN \
    "mcmd=spawn\nnprocs=2\nexecname=prog\ntotspawns=1\nspawnssofar=1\nargcnt=1\narg1=word\npreput_num=1\n" \
    "preput_key_0=port\npreput_val_0=7\ninfo_num=1\ninfo_key_0=host\ninfo_val_0=here\nendcmd\n"

int main(void) {
    pmi_server_callbacks callbacks = {on_spawn, on_abort, on_end, on_stuck, on_name};
    pmi_server *server;
    pmi_server_job job = {.name = "kvs_0"};
    pmi_server_pair preput = {"given", "value"}, broken = {"given", NULL};
    uint32_t id, child;
    int a[2], b[2], c[2], number = -7;
    char text[256];
    CHECK(pmi_server_new(NULL, NULL, &server) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_new(&callbacks, NULL, NULL) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_new(&callbacks, &seen, &server) == PMI_SERVER_SUCCESS);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, a) && !socketpair(AF_UNIX, SOCK_STREAM, 0, b));

    /* Invalid arguments; descriptors are closed with the call that fails. */
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, c));
    int closed[] = {c[0], 999}, twice[] = {c[1], c[1]}, ours[] = {a[0], b[0]};
    CHECK(pmi_server_add_job(server, &job, 2, closed, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(fcntl(c[0], F_GETFD) == -1);
    CHECK(pmi_server_add_job(server, &job, 2, twice, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(fcntl(c[1], F_GETFD) == -1);
    CHECK(pmi_server_add_job(server, &job, -1, ours, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_add_job(server, &job, 2, NULL, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_add_job(server, NULL, 0, NULL, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_add_job(server, &(pmi_server_job){0}, 0, NULL, &id) == PMI_SERVER_ERR_INVALID_ARG);
    job.preputs = &broken, job.preput_count = 1;
    CHECK(pmi_server_add_job(server, &job, 0, NULL, &id) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_step(NULL) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_free(NULL) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_remove_job(server, 7) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_error(server, text, sizeof text) == PMI_SERVER_SUCCESS && *text);
    CHECK(pmi_server_answer_spawn(server, 1234567890123, NULL) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_rank_exited(server, 7, -1) == PMI_SERVER_ERR_INVALID_ARG);

    /* A panic is a code, and the server goes on. */
    pmi_capi_inject_panic();
    CHECK(pmi_server_connected(server, &number) == PMI_SERVER_FAIL && number == -7);

    int appnums[] = {0, 5};
    job.preputs = &preput, job.appnums = appnums, job.universe_size = 9;
    CHECK(pmi_server_add_job(server, &job, 2, ours, &id) == PMI_SERVER_SUCCESS);
    CHECK(pmi_server_connected(server, &number) == PMI_SERVER_SUCCESS && number == 2);
    CHECK(strstr(answer(server, a[1], INIT), "response_to_init"));
    CHECK(strstr(answer(server, b[1], INIT), "rc=0"));
    CHECK(strstr(answer(server, a[1], "cmd=get kvsname=kvs_0 key=given\n"), "value=value"));
    CHECK(strstr(answer(server, b[1], "cmd=get_appnum\n"), "appnum=5"));
    CHECK(strstr(answer(server, a[1], "cmd=get_universe_size\n"), "size=9"));

    /* A spawn that is answered after its callback. */
    CHECK(!*answer(server, a[1], SPAWN) && seen.spawns == 1 && seen.nested);
    CHECK(!strcmp(seen.arguments, "prog word ") && !strcmp(seen.pairs, "port7hosthere"));
    pmi_server_job second = {.name = "kvs_1", .spawner = &id};
    CHECK(pmi_server_add_job(server, &second, 0, NULL, &child) == PMI_SERVER_SUCCESS && child != id);
    CHECK(pmi_server_answer_spawn(server, seen.spawn, &child) == PMI_SERVER_SUCCESS);
    CHECK(strstr(received(a[1]), "rc=0"));
    CHECK(pmi_server_answer_spawn(server, seen.spawn, &child) == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(pmi_server_remove_job(server, child) == PMI_SERVER_SUCCESS);

    /* Names that the launcher serves: three answers of it, of which two come after their callbacks. */
    CHECK(strstr(answer(server, a[1], "cmd=publish_name service=ocean port=7\n"), "rc=0"));
    CHECK(!*answer(server, b[1], "cmd=lookup_name service=ocean\n"));
    CHECK(pmi_server_answer_name(server, seen.lookup, PMI_SERVER_SUCCESS, "8") == PMI_SERVER_SUCCESS);
    CHECK(strstr(received(b[1]), "port=8"));
    CHECK(pmi_server_answer_name(server, seen.lookup, PMI_SERVER_SUCCESS, "8") == PMI_SERVER_ERR_INVALID_ARG);
    CHECK(!*answer(server, b[1], "cmd=lookup_name service=sea\n"));
    CHECK(pmi_server_answer_name(server, seen.lookup, PMI_SERVER_FAIL, NULL) == PMI_SERVER_SUCCESS);
    CHECK(strstr(received(b[1]), "info=fail"));
    CHECK(strstr(answer(server, a[1], "cmd=unpublish_name service=ocean\n"), "rc=0"));
    CHECK(!strcmp(seen.names, "1:0:ocean:7 3:1:ocean:- 3:1:sea:- 2:0:ocean:- "));

    /* An abort of a rank, its exit, and a fence that waits for it. */
    answer(server, b[1], "cmd=abort exitcode=3\n");
    CHECK(seen.aborts == 1 && seen.code == 3);
    CHECK(pmi_server_rank_exited(server, id, 1) == PMI_SERVER_SUCCESS && seen.ends == 1 && !seen.finalized);
    CHECK(!*answer(server, a[1], "cmd=barrier_in\n") && seen.stuck == 1 && seen.gone == 1);
    close(a[1]), close(b[1]);
    CHECK(pmi_server_run(server) == PMI_SERVER_SUCCESS && seen.ends == 2);
    CHECK(pmi_server_connected(server, &number) == PMI_SERVER_SUCCESS && number == 0);
    CHECK(pmi_server_free(server) == PMI_SERVER_SUCCESS);
    puts("all as expected");
    return 0;
}
