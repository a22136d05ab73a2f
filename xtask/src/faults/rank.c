/* A rank that does what the fault suite orders, one line at a time, over a socket that no launcher knows.

   Usage: rank SOCKET [clean | hidden]
   `clean` starts the program again with an empty environment; what it needs of it follows as arguments.
   `hidden` makes the process one that is not dumped, so that only root may read its descriptors in /proc.

   It reports `hello RANK PID`, `at COMMAND` when a request is on its way, `done COMMAND` when it has been
   answered, and `failed COMMAND` otherwise. It survives the loss of its PMI connection on purpose: to end it
   is the launcher's work. It ends by itself only when the suite is gone.

   PMI-1 is spoken by hand over PMI_FD; compiled with -DPMIX the same orders go to libpmix. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int control = -1, rank = 0, lines_written = 0;
static const char *program, *socket_path;

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = fd == control ? send(fd, bytes, length, MSG_NOSIGNAL) : write(fd, bytes, length);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        bytes += sent;
        length -= (size_t) sent;
    }
}

static void report(const char *what, const char *command)
{
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s\n", what, command);
    send_all(control, line, (size_t) length);
}

/* Reads one line without its end; 0 when the other side is gone. */
static int read_line(int fd, char *line, size_t room)
{
    size_t length = 0;
    while (length + 1 < room) {
        ssize_t got = read(fd, line + length, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = 0;
    return 1;
}

#ifndef PMIX
/* PMI-1 */

static int pmi = -1;
static char space[256];

static void ask(const char *text)
{
    send_all(pmi, text, strlen(text));
}

static int answer(char *line, size_t room)
{
    return pmi >= 0 && read_line(pmi, line, room);
}

/* Sends the request; the answer is read by `finish`. */
static void begin(const char *command, const char *argument)
{
    char text[1024];
    if (!strcmp(command, "init")) {
        ask("cmd=init pmi_version=1 pmi_subversion=1\n");
    } else if (!strcmp(command, "put")) {
        snprintf(text, sizeof text, "cmd=put kvsname=%s key=card-%d value=of-%d\n", space, rank, rank);
        ask(text);
    } else if (!strcmp(command, "fence")) {
        ask("cmd=barrier_in\n");
    } else if (!strcmp(command, "get")) {
        snprintf(text, sizeof text, "cmd=get kvsname=%s key=card-%s\n", space, argument);
        ask(text);
    } else if (!strcmp(command, "spawn")) {
        snprintf(text, sizeof text,
                 "mcmd=spawn\nnprocs=2\nexecname=%s\ntotspawns=1\nspawnssofar=1\narg1=%s\nargcnt=1\n"
                 "preput_num=0\ninfo_num=0\nendcmd\n",
                 *argument ? argument : program, socket_path);
        ask(text);
    } else if (!strcmp(command, "finalize")) {
        ask("cmd=finalize\n");
    }
}

static int finish(const char *command)
{
    char line[2048], *name;
    if (!answer(line, sizeof line))
        return 0;
    if (!strcmp(command, "init")) {
        ask("cmd=get_my_kvsname\n");
        if (!answer(line, sizeof line) || !(name = strstr(line, "kvsname=")))
            return 0;
        snprintf(space, sizeof space, "%s", name + strlen("kvsname="));
        space[strcspn(space, " ")] = 0;
    }
    if (!strcmp(command, "get"))
        return strstr(line, "value=of-") != NULL;
    return !strstr(line, " rc=") || strstr(line, " rc=0");
}

static void call_abort(const char *code)
{
    char text[64];
    snprintf(text, sizeof text, "cmd=abort exitcode=%s\n", code);
    ask(text);
}

static void each_connection(void (*visit)(int fd))
{
    if (pmi >= 0)
        visit(pmi);
}

static void set_up(void)
{
    const char *number = getenv("PMI_FD"), *own = getenv("PMI_RANK");
    pmi = number ? atoi(number) : -1;
    rank = own ? atoi(own) : 0;
}
#else
/* PMIx: a request that is not waited for runs in a thread. */
#include <pmix.h>
#include <pthread.h>

static pmix_proc_t self;
static pthread_t thread;
static char under_way[64], its_argument[512];

static pmix_status_t call(const char *command, const char *argument)
{
    pmix_value_t value, *found;
    pmix_proc_t other;
    pmix_app_t app;
    pmix_nspace_t children;
    pmix_status_t status;
    char text[64];

    if (!strcmp(command, "init"))
        return PMIx_Init(&self, NULL, 0);
    if (!strcmp(command, "put")) {
        snprintf(text, sizeof text, "card-%d", rank);
        value.type = PMIX_INT32;
        value.data.int32 = rank;
        status = PMIx_Put(PMIX_GLOBAL, text, &value);
        return status == PMIX_SUCCESS ? PMIx_Commit() : status;
    }
    if (!strcmp(command, "fence"))
        return PMIx_Fence(NULL, 0, NULL, 0);
    if (!strcmp(command, "get")) {
        PMIX_PROC_LOAD(&other, self.nspace, (pmix_rank_t) atoi(argument));
        snprintf(text, sizeof text, "card-%s", argument);
        return PMIx_Get(&other, text, NULL, 0, &found);
    }
    if (!strcmp(command, "spawn")) {
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = strdup(*argument ? argument : program);
        PMIX_ARGV_APPEND(status, app.argv, app.cmd);
        PMIX_ARGV_APPEND(status, app.argv, socket_path);
        app.maxprocs = 2;
        return PMIx_Spawn(NULL, 0, &app, 1, children);
    }
    return strcmp(command, "finalize") ? PMIX_SUCCESS : PMIx_Finalize(NULL, 0);
}

static void *run_call(void *unused)
{
    (void) unused;
    return (void *) (size_t) (call(under_way, its_argument) == PMIX_SUCCESS);
}

static void begin(const char *command, const char *argument)
{
    snprintf(under_way, sizeof under_way, "%s", command);
    snprintf(its_argument, sizeof its_argument, "%s", argument);
    pthread_create(&thread, NULL, run_call, NULL);
}

static int finish(const char *command)
{
    void *result = NULL;
    (void) command;
    pthread_join(thread, &result);
    return result != NULL;
}

static void call_abort(const char *code)
{
    PMIx_Abort(atoi(code), "the fault suite wants it", NULL, 0);
}

static void each_connection(void (*visit)(int fd))
{
    struct sockaddr_storage peer;
    for (int fd = 3; fd < 256; fd++) {
        socklen_t length = sizeof peer;
        if (fd != control && getpeername(fd, (struct sockaddr *) &peer, &length) == 0)
            visit(fd);
    }
}

static void set_up(void)
{
    const char *own = getenv("PMIX_RANK");
    rank = own ? atoi(own) : 0;
}
#endif

static void close_it(int fd)
{
    close(fd);
}

static const char *garbage;

/* Hexadecimal digits become bytes. */
static void send_garbage(int fd)
{
    char bytes[512];
    size_t length = 0;
    for (const char *at = garbage; at[0] && at[1] && length < sizeof bytes; at += 2) {
        char pair[3] = {at[0], at[1], 0};
        bytes[length++] = (char) strtol(pair, NULL, 16);
    }
    send_all(fd, bytes, length);
}

/* Each line has the number of its rank, its own, and a length that shows where it was torn. */
static int write_lines(long count)
{
    static char many[64 * 1024];
    size_t used = 0;
    for (long i = 0; i < count; i++) {
        used += (size_t) sprintf(many + used, "#%d %d ............................................\n",
                                 rank, lines_written++);
        if (used + 128 > sizeof many || i + 1 == count) {
            size_t sent = 0;
            while (sent < used) {
                ssize_t wrote = write(1, many + sent, used - sent);
                if (wrote < 0 && errno == EINTR)
                    continue;
                if (wrote <= 0)
                    return 0;
                sent += (size_t) wrote;
            }
            used = 0;
        }
    }
    return 1;
}

/* Signals that end runs. */
static const int ENDS[] = {SIGTERM, SIGINT, SIGHUP};

/* Starts processes that stay: `deep` in sessions of their own and without their parent, `bare` with an empty
   environment, `deaf` ignoring the signals that end runs, with no descriptor of ours but the standard ones. */
static void start_sleepers(long count, int deep, int bare, int deaf)
{
    for (long i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            return;
        if (child > 0) {
            if (deep)
                waitpid(child, NULL, 0);
            continue;
        }
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        if (deep) {
            setsid();
            if (fork() != 0)
                _exit(0);
            int null = open("/dev/null", O_RDWR);
            for (int fd = 0; fd < 3; fd++)
                dup2(null, fd);
        } else {
            /* Two levels: the parent of the second one is no rank. */
            fork();
        }
        for (size_t at = 0; deaf && at < sizeof ENDS / sizeof *ENDS; at++)
            signal(ENDS[at], SIG_IGN);
        char *words[] = {(char *) "sleep", (char *) "300", NULL};
        char *empty[] = {NULL};
        execve("/bin/sleep", words, bare ? empty : environ);
        _exit(127);
    }
}

static void ignore(int signal)
{
    (void) signal;
}

static volatile sig_atomic_t its_end;
static long end_ms;

/* Ends as by the signal, but not at once: a program that saves its state takes its time. */
static void end_late(int number)
{
    struct itimerval wait = {.it_value = {end_ms / 1000, end_ms % 1000 * 1000}};
    if (!its_end) {
        its_end = number;
        setitimer(ITIMER_REAL, &wait, NULL);
    }
}

static void end_now(int number)
{
    (void) number;
    signal(its_end, SIG_DFL);
    raise(its_end);
}

static void be_slow(long ms)
{
    struct sigaction late = {.sa_handler = end_late}, now = {.sa_handler = end_now};
    end_ms = ms;
    sigaction(SIGALRM, &now, NULL);
    for (size_t at = 0; at < sizeof ENDS / sizeof *ENDS; at++)
        sigaction(ENDS[at], &late, NULL);
}

static void obey(char *line)
{
    char *argument = strchr(line, ' ');
    if (argument)
        *argument++ = 0;
    else
        argument = (char *) "";
    const char *word = line;
    int waits = 1, does_well = 1;
    if (!strncmp(word, "begin-", 6)) {
        /* The request only. */
        begin(word + 6, argument);
        report("at", word);
        return;
    }
    if (!strncmp(word, "finish-", 7)) {
        report(finish(word + 7) ? "done" : "failed", word);
        return;
    }
    if (!strcmp(word, "exit"))
        _exit(atoi(argument));
    else if (!strcmp(word, "signal")) {
        signal(atoi(argument), SIG_DFL);
        kill(getpid(), atoi(argument));
    } else if (!strcmp(word, "stop")) {
        report("at", word);
        kill(getpid(), SIGSTOP);
    } else if (!strcmp(word, "abort"))
        call_abort(argument);
    else if (!strcmp(word, "close"))
        each_connection(close_it);
    else if (!strcmp(word, "garbage")) {
        garbage = argument;
        each_connection(send_garbage);
    } else if (!strcmp(word, "lines"))
        does_well = write_lines(atol(argument));
    else if (!strcmp(word, "daemon"))
        start_sleepers(1, 1, strstr(argument, "bare") != NULL, strstr(argument, "deaf") != NULL);
    else if (!strcmp(word, "children"))
        start_sleepers(atol(argument), 0, 0, 0);
    else if (!strcmp(word, "slow"))
        be_slow(atol(argument));
    else if (!strcmp(word, "stubborn"))
        signal(SIGTERM, ignore);
    else
        waits = 2;
    if (waits == 2) {
        begin(word, argument);
        report("at", word);
        does_well = finish(word);
    }
    report(does_well ? "done" : "failed", word);
}

/* The same program again with nothing in its environment; the settings are taken from its arguments then. */
static void start_clean(char **argv)
{
    static char *words[512], *empty[] = {NULL};
    int count = 0;
    words[count++] = argv[0];
    words[count++] = argv[1];
    words[count++] = (char *) "cleaned";
    for (char **entry = environ; *entry && count < 511; entry++)
        words[count++] = *entry;
    execve("/proc/self/exe", words, empty);
    perror("execve");
    exit(126);
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char line[2048];

    if (argc < 2)
        return 2;
    program = argv[0];
    socket_path = argv[1];
    if (argc > 2 && !strcmp(argv[2], "clean"))
        start_clean(argv);
    if (argc > 2 && !strcmp(argv[2], "hidden"))
        prctl(PR_SET_DUMPABLE, 0);
    for (int at = 3; argc > 2 && !strcmp(argv[2], "cleaned") && at < argc; at++)
        putenv(argv[at]);
    signal(SIGPIPE, SIG_IGN);
    set_up();
    control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    if (connect(control, (struct sockaddr *) &address, sizeof address) != 0) {
        perror(socket_path);
        return 125;
    }
    snprintf(line, sizeof line, "%d %d %s", rank, (int) getpid(), argc > 2 ? argv[2] : "plain");
    report("hello", line);
    while (read_line(control, line, sizeof line))
        obey(line);
    /* The suite is gone. */
    _exit(9);
}
