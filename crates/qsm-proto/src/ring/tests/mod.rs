mod faults;
mod network;
mod rounds;
mod safety;
mod sets;
