mod faults;
mod gathered;
mod network;
mod rounds;
mod safety;
mod sets;
