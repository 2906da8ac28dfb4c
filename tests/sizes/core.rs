//! The same program, and the core with it: a child is started, verified, signalled with its group, and reaped.

use std::{error::Error, ptr};

use pidward_core::{
    Signal,
    identity::Host,
    image::Packer,
    marker::Names,
    spawn::{Launcher, Plan, Program, Slot},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("hello, world");
    let (mut bytes, mut pointers) = ([0; 64], [ptr::null(); 3]);
    let mut words = Packer::new(&mut bytes, &mut pointers);
    words.push(b"/bin/sleep").and_then(|()| words.push(b"1000")).map_err(|e| format!("{e:?}"))?;
    let argv = words.finish();
    let environ = Packer::new(&mut [], &mut []).finish();
    let plan = Plan::new(Program::Paths(argv), argv, environ);
    let child = Launcher::new()?.spawn(&plan, &Slot::new())?;
    let host = Host::look();
    let known = host.identity(&child, None).map_err(|e| format!("{e:?}"))?;
    let process = host.verify(&known, &Names::DEFAULT).map_err(|verdict| format!("{verdict:?}"))?;
    process
        .signal_group(Signal::KILL)
        .or_else(|_| child.signal(Signal::KILL))
        .map_err(|e| format!("{e:?}"))?;
    // Ends with the child, which SIGKILL ends.
    loop {
        if let Some(exit) = child.try_reap().map_err(|e| format!("{e:?}"))? {
            println!("{:?}", exit.status);
            return Ok(());
        }
    }
}
