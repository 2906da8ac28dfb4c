//! Starts one child by the core alone: its code is what the test of the child's path reads.

use pidward_core::{
    image::Packer,
    spawn::{Launcher, Plan, Program, Slot},
};

fn main() {
    let (mut bytes, mut pointers) = ([0; 64], [std::ptr::null(); 8]);
    let mut packer = Packer::new(&mut bytes, &mut pointers);
    packer.push(b"/bin/true").expect("room");
    let table = packer.finish();
    let plan = Plan::new(Program::Paths(table), table, table);
    let child = Launcher::new().and_then(|mut launcher| launcher.spawn(&plan, &Slot::new()));
    println!("{:?}", child.map(|child| child.pid()));
}
