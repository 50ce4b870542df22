/// Frames under way in one direction. Fewer make a large message slow (64 frames of 1400 bytes
/// per round trip are 90 MB/s at 1 ms); more could overflow a small receive buffer.
pub const WINDOW_FRAMES: u64 = 64;
