//! Places for connections and streams: a limited number, and a share of them for each client, so that no client can take
//! all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The part of all places that one client may take.
const SHARE: usize = 4;

/// Places, some of which are taken.
#[derive(Debug)]
pub struct Places {
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// A place. Dropping it frees it.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    client: String,
}

impl Places {
    /// Makes this many places.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes a place for a client. None if all are taken, or the client has its share. A client without a name, the user
    /// of this machine, may take all.
    pub fn take(self: &Arc<Self>, client: Option<&str>) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let share = if client.is_some() { self.most.div_ceil(SHARE) } else { self.most };
        let client = client.unwrap_or_default();
        if taken.values().sum::<usize>() >= self.most || taken.get(client).is_some_and(|own| *own >= share) {
            return None;
        }
        *taken.entry(client.to_owned()).or_default() += 1;
        Some(Place { places: Arc::clone(self), client: client.to_owned() })
    }

    /// Returns how many are taken.
    pub fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_at_most_its_share_and_the_user_may_take_all() {
        let places = Places::new(8);
        let mut held: Vec<Place> = (0..2).filter_map(|_| places.take(Some("a"))).collect();
        assert!(places.take(Some("a")).is_none());
        held.extend(places.take(Some("b")));
        held.extend((0..9).filter_map(|_| places.take(None)));
        assert_eq!((held.len(), places.taken()), (8, 8));
        assert!(places.take(Some("b")).is_none());
        held.remove(0);
        assert!(places.take(Some("a")).is_some());
        drop(held);
        assert_eq!(places.taken(), 0);
    }
}
