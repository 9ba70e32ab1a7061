/* SPDX-License-Identifier: BSD-2-Clause */

/* Servers of many processes: preforked, grouped, daemonised, of another user. */

#include "harness.h"

/* Workers that share a listener made by their parent. */
ROLE(fork_prefork, clients)
{
	actor_use(2, "clients");
	for (int i = 0; i < 16; i++) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		warm_up_client(fd);
		say("echo intact %d", echo_check(fd, (uint32_t)i));
		close(fd);
	}
}

static void worker_loop(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			exit(1);
		warm_up_server(fd);
		echo_until_end(fd);
		close(fd);
	}
}

SOLO(fork_prefork, 0)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	pid_t workers[4];
	shared_set(0, port);
	for (int i = 0; i < 4; i++)
		if (!(workers[i] = fork()))
			worker_loop(listener);
	say_status("clients", reap(spawn_role("clients", 0)));
	for (int i = 0; i < 4; i++) {
		kill(workers[i], SIGTERM);
		say_status("worker", reap(workers[i]));
	}
}

/* A group of listeners on one port, each in its own program. */
static void reuseport_member(void)
{
	struct sockaddr_storage a;
	int on = 1, fd = tcp_socket(AF_INET, 0);
	socklen_t size = loopback(&a, AF_INET, (uint16_t)shared_get(0));
	MUST(!setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
	MUST(!bind(fd, (struct sockaddr *)&a, size));
	MUST(!listen(fd, 64));
	post(0);
	worker_loop(fd);
}

static void reuseport_group(int plain)
{
	struct sockaddr_storage a;
	pid_t members[4];
	int on = 1, holder = tcp_socket(AF_INET, 0);
	socklen_t size = loopback(&a, AF_INET, 0);
	MUST(!setsockopt(holder, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
	MUST(!bind(holder, (struct sockaddr *)&a, size));
	shared_set(0, port_of(holder));
	for (int i = 0; i < 4; i++)
		members[i] = spawn_role("member", i < plain ? SPAWN_PLAIN : 0);
	await_n(0, 4);
	say_status("clients", reap(spawn_role("clients", 0)));
	for (int i = 0; i < 4; i++) {
		kill(members[i], SIGTERM);
		say_status("member", reap(members[i]));
	}
}

/* Nobody knows which member answers, and a plain one never warms up. */
static void few_rounds(int fd)
{
	for (int n = 0; n < 50; n++) {
		char c = 'p';
		send_all(fd, &c, 1);
		recv_all(fd, &c, 1);
	}
	send_all(fd, "q", 1);
	recv_all(fd, (char[1]){ 0 }, 1);
}

static void reuseport_clients(void (*warm_up)(int fd))
{
	actor_use(2, "clients");
	for (int i = 0; i < 24; i++) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		warm_up(fd);
		say("echo intact %d", echo_check(fd, (uint32_t)i));
		close(fd);
	}
}

ROLE(fork_reuseport, member)
{
	reuseport_member();
}

ROLE(fork_reuseport, clients)
{
	reuseport_clients(warm_up_client);
}

SOLO(fork_reuseport, 0)
{
	reuseport_group(0);
}

ROLE(fork_reuseport_mixed, member)
{
	reuseport_member();
}

ROLE(fork_reuseport_mixed, clients)
{
	reuseport_clients(few_rounds);
}

SOLO(fork_reuseport_mixed, SOME_TCP)
{
	reuseport_group(2);
}

/* A server that becomes a daemon after it listens. */
ROLE(fork_daemonise, daemon)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	shared_set(0, port);
	if (fork())
		_exit(0);
	setsid();
	if (fork())
		exit(0);
	actor_use(3, "daemon");
	post(0);
	for (int i = 0; i < 3; i++) {
		int fd = accept(listener, NULL, NULL);
		warm_up_server(fd);
		echo_until_end(fd);
		close(fd);
	}
	say("done");
}

SOLO(fork_daemonise, 0)
{
	say_status("starter", reap(spawn_role("daemon", 0)));
	await(0);
	for (int i = 0; i < 3; i++) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		warm_up_client(fd);
		say("echo intact %d", echo_check(fd, (uint32_t)i));
		close(fd);
	}
}

/* Ends of different users. */
ROLE(fork_other_user, server)
{
	uint16_t port;
	actor_use(2, "server");
	int listener = listen_on(AF_INET, false, &port);
	MUST(!setgid(65534) && !setuid(65534));
	shared_set(0, port);
	post(0);
	int fd = accept(listener, NULL, NULL);
	warm_up_server(fd);
	echo_until_end(fd);
	say("done");
}

SOLO(fork_other_user, NEEDS_ROOT | MAY_BE_TCP)
{
	pid_t server = spawn_role("server", 0);
	await(0);
	int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
	warm_up_client(fd);
	say("echo intact %d", echo_check(fd, 1));
	close(fd);
	say_status("server", reap(server));
}

/* A process that gives up its rights in the middle of a connection. */
ROLE(fork_user_changes, server)
{
	uint16_t port;
	actor_use(2, "server");
	int listener = listen_on(AF_INET, false, &port);
	shared_set(0, port);
	post(0);
	int fd = accept(listener, NULL, NULL);
	warm_up_server(fd);
	MUST(!setgid(65534) && !setuid(65534));
	echo_until_end(fd);
	close(fd);
	fd = accept(listener, NULL, NULL);
	warm_up_server(fd);
	echo_until_end(fd);
	say("done");
}

SOLO(fork_user_changes, NEEDS_ROOT | SOME_TCP)
{
	pid_t server = spawn_role("server", 0);
	await(0);
	for (int i = 0; i < 2; i++) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		warm_up_client(fd);
		say("echo intact %d", echo_check(fd, 1));
		close(fd);
	}
	say_status("server", reap(server));
}
