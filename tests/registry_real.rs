//! Real servers in a registry: their ports are shown, and after a crash of their supervisors nobody listens any more.

use std::{collections::BTreeSet, fs, net::TcpStream, process::Command};

use pidward_tests::{
    announce::Board,
    command::child_of,
    files, in_child,
    leftovers::NoLeftovers,
    need, proc,
    registry::{Home, objects},
    skip,
};

/// Everybody who listens on this machine, as `ss` says it or as the kernel does.
fn listeners() -> BTreeSet<String> {
    let ss = Command::new("ss").args(["-H", "-ltnp"]).output().ok().filter(|output| output.status.success());
    let text = ss.map_or_else(
        || {
            ["tcp", "tcp6"]
                .map(|file| fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default())
                .concat()
        },
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    text.lines().filter(|line| line.contains("LISTEN") || line.contains(" 0A ")).map(str::to_owned).collect()
}

#[test]
fn of_real_servers_whose_supervisors_were_killed_nobody_listens_any_more() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    need!(has("python3"), "needs-python");
    need!(has("node"), "needs-node");
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::alone();
    let home = Home::new(&guard);
    let before = listeners();
    let python = "import http.server, sys\n\
                  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
                  open(sys.argv[1], 'a').write('python %d\\n' % server.server_port)\nserver.serve_forever()\n";
    let node = "const server = require('http').createServer((q, a) => a.end('hello'));\n\
                server.listen(0, '127.0.0.1', () => require('fs').appendFileSync(process.argv[2], \
                `node ${server.address().port}\\n`));\nprocess.on('SIGTERM', () => {});\n";
    // As an MCP server is: newline-delimited JSON on its standard streams; and a helper of its own that listens.
    let mcp = "import json, os, socket, sys\n\
               if os.fork() == 0:\n\
               \x20   os.setsid()\n\
               \x20   helper = socket.create_server(('127.0.0.1', 0))\n\
               \x20   open(sys.argv[1], 'a').write('mcp %d\\n' % helper.getsockname()[1])\n\
               \x20   while True: helper.accept()\n\
               for line in sys.stdin:\n\
               \x20   print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {}}), flush=True)\n\
               import signal\n\
               signal.pause()\n";
    let (board, scripts) = (Board::at(home.at("board")), home.at("scripts"));
    fs::create_dir(&scripts).expect("ours");
    let mut runs = Vec::new();
    for (name, program, text) in [("web", "python3", python), ("api", "node", node), ("mcp", "python3", mcp)]
    {
        let script = scripts.join(format!("{name}.script"));
        files::program(&script, text.as_bytes());
        let words = [program.as_ref(), script.as_os_str(), board.path().as_os_str()];
        let options = ["--name", name, "--kind", "mcp", "--no-guard", "--cgroup", "off"];
        runs.push(home.run(&options, &words));
    }
    let ports = ["python", "node", "mcp"].map(|word| board.wait_for(word));
    for port in &ports {
        let connected = TcpStream::connect(format!("127.0.0.1:{port}"));
        assert!(connected.is_ok(), "{port}: {connected:?}");
    }
    home.until_written(&runs.iter().map(|run| child_of(run.id())).collect::<Vec<_>>());
    let (code, out, err) = home.ask(&["ls", "--json", "--registry", &home.root()]);
    assert_eq!((code, err.as_str()), (0, ""));
    for (name, port) in ["web", "api", "mcp"].iter().zip(&ports) {
        let shown = objects(&out).into_iter().find(|value| value["name"] == *name).expect("a record");
        assert_eq!(shown["ports"], serde_json::json!([format!("127.0.0.1:{port}")]), "{shown}");
    }
    runs.into_iter().for_each(pidward_tests::registry::Run::crash);
    let (code, out, err) = home.ask(&["reconcile", "--json", "--registry", &home.root()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    // The one that is deaf, and the helper in a session of its own, were there to be found; others had their death signal.
    assert!(
        objects(&out)
            .iter()
            .any(|value| value["ports"] == serde_json::json!([format!("127.0.0.1:{}", ports[1])])),
        "{out}"
    );
    proc::eventually("nobody is left", || guard.left().is_empty());
    assert_eq!(listeners(), before);
    for port in &ports {
        assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "nobody listens");
    }
    assert_eq!(home.ask(&["ls", "--registry", &home.root()]), (0, String::new(), String::new()));
}
