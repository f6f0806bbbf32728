//! What a confined program cannot do, and what honest programs do.

use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs a program of Python, confined to the system's files, its own installation and a folder.
fn confined(folder: &TempDir, code: &str) -> Output {
    confined_with(folder, &[], code)
}

/// Does the same with more arguments of `optloop confined`.
fn confined_with(folder: &TempDir, more: &[&str], code: &str) -> Output {
    let asked =
        Command::new("python3").args(["-c", "import sys; print(sys.executable, sys.base_prefix, sep='\\n')"]).output();
    let told = String::from_utf8(asked.unwrap().stdout).unwrap();
    let [python, installation] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
    command.arg("confined").args(more).args(["--write", "/dev/shm", "--write"]).arg(folder.path());
    for readable in ["/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/proc", "/dev/null", installation] {
        command.args(["--read", readable]);
    }
    command.args(["--", python, "-c", code]).current_dir(folder.path()).output().unwrap()
}

/// A call that goes through prints its name. A number of a system call is that of the first ABI, then of the second.
const ATTACKS: &str = r#"
import ctypes, errno, fcntl, os, platform, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": 0, "aarch64": 1}[platform.machine()]

def system(name, numbers, *arguments, expected=errno.EPERM):
    ctypes.set_errno(0)
    result = libc.syscall(numbers[NUMBERS], *(ctypes.c_long(value) for value in arguments))
    if result == 0 and name.startswith("clone"):
        os._exit(0)
    if ctypes.get_errno() != expected:
        print(name, result, os.strerror(ctypes.get_errno()))

def attempt(name, call):
    try:
        call()
        print(name)
    except PermissionError:
        pass

pair = socket.socketpair()
attempt("sendmsg", lambda: pair[0].sendmsg([b"x"]))
attempt("send a descriptor", lambda: socket.send_fds(pair[0], [b"x"], [0]))
attempt("sendmsg to an address", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, "/x"))
system("sendmmsg", (307, 269), pair[0].fileno(), 0, 0, 0)
readable = os.open("mine", os.O_RDONLY)
attempt("fchmod", lambda: os.fchmod(readable, 0o4777))
attempt("fchown", lambda: os.fchown(readable, os.getuid(), -1))
attempt("fsetxattr", lambda: os.setxattr(readable, "user.x", b"x"))
attempt("fremovexattr", lambda: os.removexattr(readable, "user.x"))
attempt("FS_IOC_SETFLAGS", lambda: fcntl.ioctl(readable, 0x40086602, struct.pack("l", 0x40)))
attempt("FS_IOC_FSSETXATTR", lambda: fcntl.ioctl(readable, 0x401C5820, bytes(28)))
system("clone", (56, 220), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
system("clone of a network", (56, 220), 0x40000000 | signal.SIGCHLD, 0, 0, 0, 0)
system("clone3", (435, 435), 0, 0, expected=errno.ENOSYS)
system("shmget", (29, 194), 0, 4096, 0o1600)
system("msgget", (68, 186), 0, 0o1600)
system("semget", (64, 190), 0, 1, 0o1600)
system("mq_open", (240, 180), 0, 0o102, 0o600, 0)
attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 10))
attempt("setpriority of a user", lambda: os.setpriority(os.PRIO_USER, 0, 10))
system("migrate_pages", (256, 238), os.getppid(), 0, 0, 0)
held = [line for line in open("/proc/self/status") if line.startswith("CapEff")][0].split()[1]
if int(held, 16) >> 23 & 1:
    print("CAP_SYS_NICE", held)
print("done")
"#;

#[test]
fn a_confined_program_sends_no_messages_and_changes_neither_files_nor_processes_of_others() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("mine"), "text").unwrap();
    let output = confined(&folder, ATTACKS);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "done\n");
}

/// What PyTorch, its compilers and numpy use: threads, processes, pipes, temporary files, shared memory, affinity.
const HONEST: &str = r#"
import asyncio, multiprocessing, os, shutil, socket, sqlite3, subprocess, tempfile, threading

def square(value):
    return value * value

found = []
thread = threading.Thread(target=lambda: found.append(1))
thread.start()
thread.join()
assert found == [1] and subprocess.run(["true"]).returncode == 0
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(square, [2, 3]) == [4, 9]
pair = socket.socketpair()
pair[0].send(b"x")
assert pair[1].recv(1) == b"x"
asyncio.run(asyncio.sleep(0))
with tempfile.NamedTemporaryFile(dir=".") as file, tempfile.TemporaryDirectory(dir="."):
    file.write(b"x")
    file.flush()
    shutil.copyfile(file.name, "copy")
    os.replace("copy", "moved")
with sqlite3.connect("cache.db") as database:
    database.execute("create table t (x)")
os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
os.nice(1)
print("done")
"#;

#[test]
fn an_honest_program_runs_confined() {
    let folder = TempDir::new().unwrap();
    let output = confined(&folder, HONEST);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "done\n");
}

/// What a coding agent that may reach one port does and cannot do. The port, another one and a local service are its arguments.
const CONVERSATION: &str = r#"
import os, socket, subprocess, threading
own, other, service = int(os.environ["OWN"]), int(os.environ["OTHER"]), os.environ["SERVICE"]
assert socket.create_connection(("127.0.0.1", own)).recv(2) == b"hi"
a, b = socket.socketpair()
a.sendmsg([b"x"])
assert b.recv(1) == b"x"
os.chmod("mine", 0o777)
os.environ["HOME"] = os.getcwd()
subprocess.run(["git", "init", "--quiet", "notes"], check=True)

def attempt(name, call):
    try:
        call()
        print(name)
    except (PermissionError, ConnectionResetError):
        pass

def to(port, kind=socket.SOCK_STREAM, protocol=0):
    socket.socket(socket.AF_INET, kind, protocol).connect(("127.0.0.1", port))

attempt("another port", lambda: to(other))
attempt("MPTCP", lambda: to(other, protocol=262))
attempt("UDP", lambda: to(own, socket.SOCK_DGRAM))
attempt("a raw socket", lambda: to(own, socket.SOCK_RAW, 1))
attempt("TCP fast open", lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", other)))
attempt("TCP fast open in a message", lambda: socket.socket().sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", other)))
attempt("a local service", lambda: socket.socket(socket.AF_UNIX).connect(service))
attempt("a pair of datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect(service))
attempt("a listener", lambda: socket.socket().bind(("127.0.0.1", 0)))
attempt("a listener without an address", lambda: socket.socket().listen())
print("done")
"#;

#[test]
fn an_agent_reaches_its_server_and_no_other() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let (mine, service) = (folder.path().join("mine"), folder.path().join("service"));
    std::fs::write(&mine, "text").unwrap();
    std::fs::set_permissions(&mine, std::fs::Permissions::from_mode(0o600)).unwrap();
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, other, _service) = (listen(), listen(), std::os::unix::net::UnixListener::bind(&service).unwrap());
    let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port().to_string();
    let code = CONVERSATION
        .replace("os.environ[\"OWN\"]", &format!("'{}'", port(&own)))
        .replace("os.environ[\"OTHER\"]", &format!("'{}'", port(&other)))
        .replace("os.environ[\"SERVICE\"]", &format!("'{}'", service.display()));
    let greeted = port(&own);
    std::thread::spawn(move || own.incoming().for_each(|client| client.unwrap().write_all(b"hi").unwrap()));
    let output = confined_with(&folder, &["--port", &greeted, "--write", "/dev/null"], &code);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "done\n");
    assert_eq!(
        mine.metadata().unwrap().permissions().mode() & 0o777,
        0o600,
        "it was only told that the mode is another"
    );
}
