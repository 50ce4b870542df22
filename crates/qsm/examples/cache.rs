//! Caches in front of a store: who changes a value tells all caches to forget it, and a cache that has missed
//! something forgets everything. `cargo run -p qsm --example cache`

use std::collections::HashMap;
use std::error::Error;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use qsm::{Node, Publisher, Received, Subscription};

const PATIENCE: Duration = Duration::from_secs(10);

/// The store, which is slow and always right, and how often it was asked.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<(HashMap<String, u64>, u64)>>);

impl Store {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, u64>, &mut u64) -> T) -> T {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (values, asked) = &mut *inner;
        act(values, asked)
    }

    /// Changes a value, and then tells the caches: in this order, or a cache would read the old one again.
    fn write(&self, key: &str, value: u64, changed: &Publisher) -> Result<(), Box<dyn Error>> {
        self.with(|values, _| values.insert(key.to_owned(), value));
        changed.send(key.as_bytes())?;
        Ok(())
    }

    fn read(&self, key: &str) -> Option<u64> {
        self.with(|values, asked| {
            *asked += 1;
            values.get(key).copied()
        })
    }
}

struct Cache {
    store: Store,
    changed: Subscription,
    values: HashMap<String, u64>,
}

impl Cache {
    /// Forgets what has changed since the last call.
    fn refresh(&mut self) -> Result<(), Box<dyn Error>> {
        while let Some(received) = self.changed.recv_timeout(Duration::ZERO)? {
            match received {
                Received::Message(message) => {
                    self.values
                        .remove(&*String::from_utf8_lossy(message.bytes()));
                }
                // The node was away, and has caught up: nothing is missing.
                Received::Back(_) => {}
                // Something is missing, whatever the cause: any value may be old.
                missing => {
                    println!("{missing}: everything is forgotten");
                    self.values.clear();
                }
            }
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<u64>, Box<dyn Error>> {
        self.refresh()?;
        if let Some(value) = self.values.get(key) {
            return Ok(Some(*value));
        }
        let value = self.store.read(key);
        if let Some(value) = value {
            self.values.insert(key.to_owned(), value);
        }
        Ok(value)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("cache-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let (writer, web) = (builder.clone().start()?, builder.start()?);
    let store = Store::default();
    // A small queue, so that a cache that is not used for long forgets all instead of each.
    let changed = web.group("changed").capacity_messages(100).subscribe()?;
    let publisher = writer.publisher("changed")?;
    publisher.wait_for_members(1, PATIENCE)?;
    let mut cache = Cache {
        store: store.clone(),
        changed,
        values: HashMap::new(),
    };

    store.write("price", 1, &publisher)?;
    writer.flush(PATIENCE)?;
    for _ in 0..1000 {
        assert_eq!(cache.get("price")?, Some(1));
    }
    println!("1000 reads, {} of the store", store.with(|_, asked| *asked));

    store.write("price", 2, &publisher)?;
    writer.flush(PATIENCE)?;
    println!("after a change: {:?}", cache.get("price")?);

    for stock in 0..1000 {
        store.write("stock", stock, &publisher)?;
    }
    writer.flush(PATIENCE)?;
    println!("after 1000 changes: {:?}", cache.get("stock")?);
    Ok(())
}
