//! Names the shared library as programs ask for it, with the number of its interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libqsm.so.2");
}
