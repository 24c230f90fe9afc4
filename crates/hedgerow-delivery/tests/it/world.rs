//! A grid in one thread, on tokio's paused clock: publish, let time pass, see who was asked what and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::hold::ProbationDurations;
use hedgerow_core::limits;
use hedgerow_core::position::{Mark, TopicId};
use hedgerow_core::retry::Jitter;
use hedgerow_core::spec::{Profile, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::EngineHandle;
use hedgerow_delivery::command::{
    Command, CommandError, DeadLetterInfo, DeadLetterQuery, SubscriptionInfo, TerminalQuery,
};
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_delivery::engine::{Engine, Parts};
use hedgerow_delivery::metrics::Metrics;
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_delivery::spawner::Spawner;
use hedgerow_dialect::dead_letter::ExtraMembers;
use hedgerow_io::clock::{Clock, TokioClock};
use hedgerow_io::http::{AddressGuard, Client, ClientOptions};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::history::HistoryHandle;
use hedgerow_store::memory::MemoryStore;
use hedgerow_store::record::{Begun, PackedEvents, Purged, Record};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::{MemoryTable, Row, RowChange, Space, Table};
use hedgerow_store::view::{TerminalRecord, View, ViewOptions};
use hedgerow_store::{Store, StoreError};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::balance::assert_balanced;
use crate::groups::FixedOrigins;
use crate::letter_box::LetterBox;
pub use crate::receiver::{Asked, Greet, Meet, Seen};
use crate::receiver::{Receiver, network};
use crate::shelf::Shelf;

/// 2030-01-02T03:04:05Z: P of every timeline.
pub const START_MS: u64 = 1_893_553_445_000;
const STORE_ID: [u8; 16] = [7; 16];

pub struct World {
    pub handle: EngineHandle,
    pub begun: tokio::time::Instant,
    pub settings: EngineSettings,
    /// Where dead letters go.
    pub letters: Arc<LetterBox>,
    store: Arc<MemoryStore>,
    /// Lets reads of single events fail, or wait.
    pub shelf: Arc<Shelf>,
    ground: Ground,
    receiver: Receiver,
    epoch: u32,
    stop: watch::Sender<bool>,
    engine: JoinHandle<Result<(), StoreError>>,
}

/// What outlives an engine.
struct Ground {
    store: Arc<MemoryStore>,
    shelf: Arc<Shelf>,
    table: Arc<BreakableTable>,
    folder: tempfile::TempDir,
    clock: Arc<dyn Clock>,
    history: Option<HistoryHandle>,
    letters: Arc<LetterBox>,
    metrics: Arc<Metrics>,
    origins: Arc<FixedOrigins>,
}

/// A table whose writes fail, or panic, when a test says so.
#[derive(Default)]
struct BreakableTable {
    inner: MemoryTable,
    /// 0: works, 1: fails, 2: panics.
    broken: AtomicU8,
    /// Scans so far.
    scans: AtomicUsize,
}

impl Table for BreakableTable {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.inner.scan(space, from, to, limit)
    }

    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange<'_>>) -> Result<(), StoreError> {
        self.inner.apply(batch)
    }

    fn persist(&self) -> Result<(), StoreError> {
        let source = Box::new(std::io::Error::other("scripted"));
        match self.broken.load(Ordering::Relaxed) {
            0 => self.inner.persist(),
            1 => Err(StoreError::View {
                doing: "sync",
                source,
            }),
            _ => panic!("scripted"),
        }
    }
}

/// The profile that the tests run in (ED-317): `cargo xtask test` runs them in both. What is declared has the defaults that a
/// server of this profile gives it.
pub fn profile() -> Profile {
    let named = std::env::var("HEDGEROW_TEST_PROFILE");
    let named = named.as_deref().unwrap_or("default");
    Profile::named(named).expect("`default` or `strict` in HEDGEROW_TEST_PROFILE")
}

/// Gives a declaration the defaults of the profile.
pub fn in_profile(declared: &mut serde_json::Value) {
    if profile() == Profile::Strict && declared["deadLetter"]["dropIfNotFound"].is_null() {
        declared["deadLetter"]["dropIfNotFound"] = json!(true);
    }
}

/// The settings of the worked timelines: the specification's, without chance.
pub fn settings() -> EngineSettings {
    let mut settings = EngineSettings::default();
    settings.quotas.subscriptions_per_topic = limits::SUBSCRIPTIONS_PER_TOPIC_MAX;
    settings.retry.jitter = Jitter::OFF;
    // Handshakes have tests of their own.
    settings.validation.is_enabled = false;
    settings.profile = profile();
    settings.dead_letter_members = ExtraMembers::of(profile());
    "https://events.example".clone_into(&mut settings.public_url);
    "events.example".clone_into(&mut settings.webhook_origin);
    settings
}

/// The same, and nobody is ever on probation.
pub fn settings_without_probation() -> EngineSettings {
    let mut settings = settings();
    settings.probation = ProbationDurations {
        busy: Duration::ZERO,
        timed_out: Duration::ZERO,
        socket_error: Duration::ZERO,
        not_found: Duration::ZERO,
        resolution_error: Duration::ZERO,
        disabled: Duration::ZERO,
        full: Duration::ZERO,
        unauthorized: Duration::ZERO,
        forbidden: Duration::ZERO,
        invalid_azure_function_destination: Duration::ZERO,
    };
    settings
}

impl World {
    /// A world whose receiver meets attempt `n` (from 0) of the event with an id as the script says. Every host is the
    /// receiver. An attempt that never reaches a request counts for the event named "refused".
    pub fn new(script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static) -> Self {
        Self::with_settings(settings(), script)
    }

    pub fn with_settings(
        settings: EngineSettings,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        Self::with_history(settings, None, script)
    }

    pub fn with_history(
        settings: EngineSettings,
        history: Option<HistoryHandle>,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        let clock = TokioClock::new(Timestamp::from_millis(START_MS));
        Self::on(Arc::new(clock), Duration::ZERO, history, settings, script)
    }

    /// A world whose log stamps what is published so far ahead of the engine's turns: as where the engine's thread has to wait
    /// between taking the time of a turn and following the log.
    pub fn with_log_ahead(
        ahead: Duration,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        let clock = TokioClock::new(Timestamp::from_millis(START_MS));
        Self::on(Arc::new(clock), ahead, None, settings(), script)
    }

    pub fn with_clock(
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        Self::on(clock, Duration::ZERO, None, settings, script)
    }

    fn on(
        clock: Arc<dyn Clock>,
        ahead: Duration,
        history: Option<HistoryHandle>,
        settings: EngineSettings,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        let issuing = Arc::clone(&clock);
        let store = Arc::new(MemoryStore::new(move || {
            issuing.now().timestamp.plus(ahead)
        }));
        let begun = tokio::time::Instant::now();
        let receiver = Receiver::new(Arc::clone(&clock), begun, script);
        let ground = Ground {
            store: Arc::clone(&store),
            shelf: Arc::new(Shelf::new(Arc::clone(&store))),
            table: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
            clock,
            history,
            letters: Arc::new(LetterBox::new(begun)),
            metrics: Arc::default(),
            origins: Arc::default(),
        };
        let (stop, stopped) = watch::channel(false);
        let engine = ground.engine(&settings, &receiver, 1, false);
        let handle = engine.handle();
        let engine = tokio::spawn(engine.run(stopped));
        Self {
            handle,
            begun,
            settings,
            letters: Arc::clone(&ground.letters),
            store,
            shelf: Arc::clone(&ground.shelf),
            ground,
            receiver,
            epoch: 1,
            stop,
            engine,
        }
    }

    /// How the origins of groups are.
    pub fn origins(&self) -> &FixedOrigins {
        &self.ground.origins
    }

    /// From now on a host does this with every attempt; `None` for what the script says.
    pub fn host(&self, host: &str, meet: Option<Meet>) {
        self.receiver.host(host, meet);
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.ground.metrics
    }

    /// How often the view's table was scanned.
    pub fn scans(&self) -> usize {
        self.ground.table.scans.load(Ordering::Relaxed)
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.ground.clock.now().timestamp
    }

    /// The highest time that is durable.
    pub fn clock_high_water(&self) -> Timestamp {
        self.store.clock_high_water()
    }

    /// Ends the engine as a crash does, and starts another one over what is durable.
    pub async fn crash(&mut self) {
        self.crash_and(|_| ()).await;
    }

    /// The same; `between` happens while there is no engine.
    pub async fn crash_and(&mut self, between: impl FnOnce(&Self)) {
        self.store.close();
        let ended = (&mut self.engine).await.expect("the engine does not panic");
        assert!(ended.is_err(), "an engine whose store is gone fails");
        self.store.reopen();
        between(self);
        self.start();
    }

    /// The store fails and is opened again in the same process.
    pub async fn reopen(&mut self) {
        self.store.close();
        let ended = (&mut self.engine).await.expect("the engine does not panic");
        assert!(ended.is_err(), "an engine whose store is gone fails");
        self.store.reopen();
        self.start_engine(true);
    }

    /// From now on the store has room for so many bytes of records.
    pub fn limit_records(&self, bytes: u64) {
        self.store.limit_records(bytes);
    }

    /// From now on the store takes no request with more bytes of events.
    pub fn limit_requests(&self, bytes: usize) {
        self.store.limit_requests(bytes);
    }

    /// What was taken of them.
    pub fn record_bytes(&self) -> u64 {
        self.store.record_bytes()
    }

    /// From now on nothing becomes durable, until the store was opened again.
    pub fn hold(&self) {
        self.store.hold();
    }

    /// What was held becomes durable, and what comes.
    pub fn release(&self) {
        self.store.release();
    }

    /// Lets checkpoints fail, or panic, from now on.
    pub fn break_checkpoints(&self, panics: bool) {
        self.ground
            .table
            .broken
            .store(1 + u8::from(panics), Ordering::Relaxed);
    }

    /// Waits for the engine to fail by itself, then repairs the table and starts another engine in the same process.
    pub async fn recover(&mut self) -> StoreError {
        let ended = (&mut self.engine).await.expect("the engine does not panic");
        self.ground.table.broken.store(0, Ordering::Relaxed);
        self.start_engine(true);
        ended.expect_err("it ends because its store failed")
    }

    /// Another server takes the store over. Returns its store; the engine goes on until it notices.
    pub fn take_over(&self) -> MemoryStore {
        self.store.take_over()
    }

    /// What the engine ended with.
    pub async fn ended(&mut self) -> Result<(), StoreError> {
        (&mut self.engine).await.expect("the engine does not panic")
    }

    /// Stops in order.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        (&mut self.engine)
            .await
            .expect("the engine does not panic")
            .expect("it stops in order");
    }

    pub fn start(&mut self) {
        self.start_engine(false);
    }

    fn start_engine(&mut self, is_reopened: bool) {
        self.epoch += 1;
        let (stop, stopped) = watch::channel(false);
        self.stop = stop;
        let engine = self
            .ground
            .engine(&self.settings, &self.receiver, self.epoch, is_reopened);
        self.handle = engine.handle();
        self.engine = tokio::spawn(engine.run(stopped));
    }

    pub async fn topic(&self, name: &str) -> TopicId {
        self.topic_with(name, TopicSpec::default()).await
    }

    pub async fn topic_with(&self, name: &str, spec: TopicSpec) -> TopicId {
        let name = name.parse().unwrap();
        let asked = self
            .handle
            .ask(|answer| Command::PutTopic { name, spec, answer });
        asked.await.unwrap().0.id
    }

    /// Declares a subscription; `more` are members of its declaration beside the destination.
    pub async fn subscribe(
        &self,
        topic: &str,
        name: &str,
        more: serde_json::Value,
    ) -> Result<SubscriptionInfo, CommandError> {
        let mut spec = json!({"destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": format!("https://{name}.example/hook?code=secret")}}});
        for (member, value) in more.as_object().expect("an object") {
            spec[member] = value.clone();
        }
        in_profile(&mut spec);
        let spec = SubscriptionSpec::check(&spec)
            .expect("a valid declaration")
            .spec;
        let (topic, name) = (topic.to_owned(), name.parse().unwrap());
        let declaration = SubscriptionDeclaration {
            topic,
            name,
            spec: Box::new(spec),
            expected: None,
        };
        let declared = self.handle.declare_subscription(declaration).await;
        declared.map(|(info, _)| info)
    }

    /// Pauses or resumes a subscription of the topic `orders`.
    pub async fn pause(&self, name: &str, is_paused: bool) -> SubscriptionInfo {
        let asked = self.handle.ask(|answer| Command::PauseSubscription {
            topic: "orders".to_owned(),
            name: name.to_owned(),
            is_paused,
            answer,
        });
        asked.await.unwrap()
    }

    pub async fn info(&self, topic: &str, name: &str) -> SubscriptionInfo {
        let (topic, name) = (topic.to_owned(), name.to_owned());
        let asked = self.handle.ask(|answer| Command::Subscription {
            topic,
            name,
            answer,
        });
        asked.await.unwrap()
    }

    pub async fn unsubscribe(&self, topic: &str, name: &str) {
        let (topic, name) = (topic.to_owned(), name.to_owned());
        let asked = self.handle.ask(|answer| Command::DeleteSubscription {
            topic,
            name,
            answer,
        });
        asked.await.unwrap();
    }

    pub async fn terminal_records(&self) -> Vec<TerminalRecord> {
        let query = TerminalQuery {
            limit: 2000,
            ..TerminalQuery::default()
        };
        let asked = self
            .handle
            .ask(|answer| Command::TerminalRecords { query, answer });
        asked
            .await
            .unwrap()
            .records
            .into_iter()
            .map(|(_, record)| record)
            .collect()
    }

    /// The dead letters that wait to be written.
    pub async fn dead_letters(&self) -> Vec<DeadLetterInfo> {
        let query = DeadLetterQuery {
            limit: 2000,
            ..DeadLetterQuery::default()
        };
        self.handle.dead_letters(query).await.unwrap().letters
    }

    /// Publishes events with these ids and waits until they are durable. Gives their publish time.
    pub async fn publish(&self, topic: TopicId, ids: &[&str]) -> Timestamp {
        let appending = self.store.append(topic, packed(ids)).unwrap();
        appending.await.unwrap().published
    }

    /// Publishes an event, and says when that was.
    pub async fn publish_event(&self, topic: TopicId, event: &Event<'_>) -> Timestamp {
        let packed = PackedEvents::pack(std::slice::from_ref(event));
        let appending = self.store.append(topic, packed).unwrap();
        appending.await.unwrap().published
    }

    /// Groups that were written so far.
    pub fn groups(&self) -> u64 {
        let all = self.store.groups(Mark::ZERO, usize::MAX).unwrap();
        all.last().map_or(0, |group| group.number)
    }

    /// PURGED records that are durable.
    pub fn purges(&self) -> Vec<Purged> {
        let groups = self.store.every_group();
        let records = groups.iter().flat_map(|group| &group.records);
        let purges = records.filter_map(|record| match record {
            Record::Purged(purged) => Some(purged.clone()),
            _ => None,
        });
        purges.collect()
    }

    /// BEGUN records that are durable.
    pub fn begun_records(&self) -> Vec<Begun> {
        let groups = self.store.every_group();
        let records = groups.iter().flat_map(|group| &group.records);
        let begun = records.filter_map(|record| match record {
            Record::Begun(begun) => Some(begun.clone()),
            _ => None,
        });
        begun.collect()
    }

    /// From which events on the log has to be kept for subscriptions, as was written down last.
    pub fn laggards(&self) -> Vec<u64> {
        let groups = self.store.every_group();
        let records = groups.iter().flat_map(|group| &group.records);
        let last = records.filter_map(|record| match record {
            Record::Read(read) => Some(read),
            _ => None,
        });
        let last = last.last().map(|read| read.laggards.iter());
        last.into_iter().flatten().map(|(_, seq)| *seq).collect()
    }

    /// Requests so far, in order of their time.
    pub fn seen(&self) -> Vec<Seen> {
        self.receiver.seen()
    }

    /// Ids of the requests so far.
    pub fn seen_ids(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.event_id).collect()
    }

    /// From now on the receiver does this with handshake `n` (from 0) of all.
    pub fn greet(&self, greeting: impl Fn(&Asked, usize) -> Greet + Send + Sync + 'static) {
        self.receiver.greet(greeting);
    }

    /// Handshake requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.receiver.asked()
    }

    /// From now on the receiver does this with notices of deletions.
    pub fn part(&self, parting: Meet) {
        self.receiver.part(parting);
    }

    /// Notices of deletions so far.
    pub fn notices(&self) -> Vec<Asked> {
        self.receiver.notices()
    }

    /// Times of the attempts that found nobody.
    pub fn refused(&self) -> Vec<Duration> {
        self.receiver.refused()
    }

    pub async fn sleep_until(&self, since_start: Duration) {
        tokio::time::sleep_until(self.begun + since_start).await;
    }

    /// Lets everything happen that can happen without time passing.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// ED-304 at a quiet moment, for a subscription.
    pub async fn assert_balanced(&self, topic: &str, name: &str) {
        let info = self.info(topic, name).await;
        let counters = info.counters;
        assert_eq!(
            counters.matched,
            counters.delivered + counters.dead_lettered + counters.dropped + info.pending
                - info.waiting,
            "matched = delivered + dead-lettered + dropped + pending: {info:?}"
        );
    }
}

pub fn packed(ids: &[&str]) -> PackedEvents {
    let events: Vec<_> = ids.iter().map(|id| event(id)).collect();
    PackedEvents::pack(&events)
}

pub fn event(id: &str) -> Event<'_> {
    Event {
        id: id.into(),
        source: None,
        event_type: "Orders.Created".into(),
        subject: Some("/orders/1".into()),
        time: Some("2030-01-02T03:04:05.1234567Z".into()),
        data_version: Some("1.0".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(r#"{"amount": 1.10}"#.into()),
    }
}

fn view_options() -> ViewOptions {
    ViewOptions {
        store_id: STORE_ID,
        terminal_records_max: 2000,
    }
}

pub fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets::with_key([7; 32], "KEY"))
}

/// ED-304 holds at the end of every test.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let groups = self.store.every_group();
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(folder.path()).unwrap();
        let table = Arc::new(MemoryTable::default());
        let mut view = View::open(table, &disk, secrets(), view_options()).unwrap();
        for group in &groups {
            view.fold(group).unwrap();
        }
        assert_balanced(&view, &groups);
    }
}

impl Ground {
    fn engine(
        &self,
        settings: &EngineSettings,
        receiver: &Receiver,
        epoch: u32,
        is_reopened: bool,
    ) -> Engine {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(self.folder.path()).unwrap());
        let options = view_options();
        let table = Arc::clone(&self.table) as _;
        let secrets = secrets();
        let mut view = View::open(table, disk.as_ref(), secrets, options).expect("the view opens");
        for group in self.store.groups(view.mark(), usize::MAX).unwrap() {
            view.fold(&group).unwrap();
        }
        let network = Arc::new(network(receiver.clone()));
        let parts = Parts {
            origins: Arc::clone(&self.origins) as _,
            store: Arc::clone(&self.shelf) as _,
            view,
            disk,
            history: self.history.clone(),
            dead_letters: Arc::clone(&self.letters) as _,
            clock: Arc::clone(&self.clock),
            client: Arc::new(Client::new(network, options_of_client())),
            guard: Arc::new(AddressGuard::new([])),
            store_id: STORE_ID,
            epoch,
            spawner: Spawner::new(tokio::runtime::Handle::current()),
            metrics: Arc::clone(&self.metrics),
            process_began: if is_reopened {
                Timestamp::ZERO
            } else {
                self.clock.now().timestamp
            },
            stopped: self.store.clock_high_water(),
        };
        Engine::new(settings.clone(), parts)
    }
}

/// Each attempt connects anew, so that a script can refuse it.
fn options_of_client() -> ClientOptions {
    ClientOptions {
        idle_max: 0,
        ..ClientOptions::default()
    }
}
