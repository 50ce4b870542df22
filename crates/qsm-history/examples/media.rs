//! A moving picture at 30 frames a second: a key frame each second, and what differs in between. Who comes late begins
//! with the newest key frame; who loses a frame has a gap until the next. `cargo run -p qsm-history --example media`

use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::ops::Range;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use qsm::{DeliveryMode, Message, Node, Overflow, Subscription};
use qsm_history::{Bounds, History, Item, JoinOptions, Keeper, Start};

const PATIENCE: Duration = Duration::from_secs(60);
const GROUP: &str = "camera/1";
/// Frames a second, of which the first is a key frame. So is the very last.
const RATE: u64 = 30;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / RATE);
const FRAMES: u64 = 5 * RATE + 1;
const WIDTH: usize = 48;
const HEIGHT: usize = 12;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A place between 0 and `end` that goes to and fro.
fn swing(at: u64, end: usize) -> usize {
    (at as usize % (2 * end)).min(2 * end - at as usize % (2 * end))
}

/// The picture of a frame: a ball over waves.
fn paint(frame: u64) -> Vec<u8> {
    let mut picture = vec![b' '; WIDTH * HEIGHT];
    for x in 0..WIDTH {
        let y = 6 + swing(x as u64 + frame, 5);
        picture[y * WIDTH + x] = b'~';
    }
    picture[swing(frame, HEIGHT - 1) * WIDTH + swing(2 * frame, WIDTH - 1)] = b'O';
    picture
}

/// Message of a frame: all of it, or rows, columns and letters that differ from the frame before.
fn message(frame: u64) -> Vec<u8> {
    let picture = paint(frame);
    if frame.is_multiple_of(RATE) {
        return [b"K", &*picture].concat();
    }
    let before = paint(frame - 1);
    let differing = (0..picture.len()).filter(|at| picture[*at] != before[*at]);
    let changes = differing.flat_map(|at| [(at / WIDTH) as u8, (at % WIDTH) as u8, picture[at]]);
    [b'D'].into_iter().chain(changes).collect()
}

/// Screen of a viewer.
#[derive(Default)]
struct Screen {
    picture: Vec<u8>,
    /// Number of the frame that fits on what is shown. Where it is lost, there is a gap until the next key frame.
    next: u64,
    came: u64,
    drawn: u64,
}

impl Screen {
    fn take(&mut self, frame: &Message) {
        self.came += 1;
        match frame.bytes().split_first() {
            Some((b'K', picture)) => self.picture = picture.to_vec(),
            Some((b'D', changes)) if self.next == frame.number() => {
                for change in changes.chunks_exact(3) {
                    let at = usize::from(change[0]) * WIDTH + usize::from(change[1]);
                    if let Some(letter) = self.picture.get_mut(at) {
                        *letter = change[2];
                    }
                }
            }
            _ => return,
        }
        self.next = frame.number() + 1;
        self.drawn += 1;
    }
}

/// Watches until all frames have come or are given up. Returns its screen, and how many these were.
fn watch(frames: &Subscription) -> Outcome<(Screen, u64)> {
    let (mut screen, mut missing) = (Screen::default(), 0);
    while screen.came + missing < FRAMES {
        let received = frames.recv()?;
        missing += received.missing();
        if let Some(frame) = received.into_message() {
            screen.take(&frame);
        }
    }
    Ok((screen, missing))
}

/// Comes late: the frames of the last second are kept, and one of them is a key frame.
fn come_late(node: &Node) -> Outcome<Screen> {
    let start = Start::Last(RATE);
    let mut frames = History::subscribe(node, [GROUP], start, JoinOptions::default())?;
    let mut screen = Screen::default();
    while screen.next != FRAMES + 1 {
        let item = frames.recv_timeout(PATIENCE)?.ok_or("nothing comes")?;
        if let Item::Kept(frame) | Item::Message(frame) = item {
            screen.take(&frame);
        }
        if stdout().is_terminal() {
            let lines = screen.picture.chunks(WIDTH).map(String::from_utf8_lossy);
            println!("\x1b[H{}", lines.collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(screen)
}

fn main() -> Outcome<()> {
    let builder = Node::builder().cluster(format!("media-{}", process::id()));
    let camera = builder.clone().name("camera").interface("lo").start()?;
    let hall = builder.clone().name("hall").interface("lo").start()?;
    let van = builder.name("van").interface("lo").start()?;

    let _keeper = Keeper::start(&camera, [GROUP], Bounds::default().messages(RATE as usize))?;
    // Its screen is dark for half of the time. Of what is overdue then its queue keeps the newest.
    let group = van.group(GROUP).delivery(DeliveryMode::Within(FRAME));
    let group = group.capacity_messages(10).overflow(Overflow::DropOldest);
    let frames = group.subscribe()?;
    let publisher = camera.publisher(GROUP)?;
    publisher.wait_for_members(1, PATIENCE)?;
    let begin = Instant::now();
    let play = |frames: Range<u64>| -> Outcome<()> {
        for frame in frames {
            publisher.send_owned(message(frame))?;
            let due = begin + FRAME * (frame as u32 + 1);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    };
    play(0..FRAMES / 2)?;
    let watching = thread::spawn(move || watch(&frames));
    let coming = thread::spawn(move || come_late(&hall));
    play(FRAMES / 2..FRAMES)?;
    camera.flush(PATIENCE)?;

    let ended = "a viewer ended early";
    let (screen, missing) = watching.join().map_err(|_| ended)??;
    let (drawn, useless) = (screen.drawn, screen.came - screen.drawn);
    println!("van: {drawn} frames drawn, {useless} came in a gap, {missing} given up");
    let screen = coming.join().map_err(|_| ended)??;
    let same = screen.picture == paint(FRAMES - 1);
    println!("hall: {} frames drawn, right: {same}", screen.drawn);
    Ok(())
}
