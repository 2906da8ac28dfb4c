//! What any program weighs.

fn main() {
    println!("hello, world");
}
