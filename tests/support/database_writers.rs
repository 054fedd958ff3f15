//! Clients of a database whose instances are processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::database_processes::{Database, Endpoint, LIMIT};
use crate::ledger::{Ledger, Options, prepare, rows};

/// Writes until it is told to stop, and then looks whether all that was acknowledged is there.
pub struct Writers {
    pub ledger: Ledger,
    endpoint: Endpoint,
}

impl Writers {
    pub async fn start(database: &Arc<Database>) -> Self {
        let endpoint = database.endpoint();
        let primary = database.primary().await.unwrap();
        let started = Instant::now();
        while let Err(error) = prepare(&database.config(primary)).await {
            assert!(started.elapsed() < LIMIT, "{error}\n{}", database.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let ledger = Ledger::start(endpoint.connect(), Options::default());
        let writers = Self { ledger, endpoint };
        writers.some(database).await;
        writers
    }

    /// Waits until writes are acknowledged again; gives the longest time for which none was since `from`.
    pub async fn resume(&self, database: &Database, from: Instant) -> Duration {
        let moment = Instant::now();
        database
            .until(LIMIT, "writes are acknowledged again", async || {
                self.ledger.acknowledged_since(moment) > 20
            })
            .await;
        self.ledger.pause(from, Instant::now())
    }

    pub async fn some(&self, database: &Database) {
        self.resume(database, Instant::now()).await;
    }

    /// Nothing that was acknowledged is missing.
    pub async fn finish(self, database: &Database) {
        let book = self.ledger.stop().await;
        drop(self.endpoint);
        let primary = database.primary().await.unwrap();
        let found = rows(&database.config(primary)).await.unwrap();
        assert_eq!(
            book.missing(&found),
            [],
            "acknowledged, and not there\n{}",
            database.logs()
        );
        assert_eq!(book.unexpected(&found), [], "there, though PostgreSQL refused it");
    }
}
