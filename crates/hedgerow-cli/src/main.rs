//! `hedgerow`, the one binary: the server, the demo, and a command for each route of the admin API.
//!
//! | module | does |
//! | --- | --- |
//! | `commands` | one file for each noun |
//! | `client` | asks a server over HTTP |
//! | `output` | tables, or JSON |
//! | `failure` | what a command prints when it could not do its part |
//! | `signals` | the first one asks for an orderly end, the second ends at once |
//! | `ready_file` | tells whoever started the server where it listens |
//! | `logging` | log lines to standard error |
//!
//! Exit status: 0 done, 1 failed, 2 not understood, 130 and 143 ended at once by a second SIGINT or SIGTERM.

mod client;
mod commands;
mod failure;
mod logging;
mod output;
mod ready_file;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::apply::ApplyCommand;
use crate::commands::config::ConfigCommand;
use crate::commands::dead_letter::DeadLetterCommand;
use crate::commands::dev::DevCommand;
use crate::commands::domain::DomainCommand;
use crate::commands::domain_topic::DomainTopicCommand;
use crate::commands::event::EventCommand;
use crate::commands::event_subscription::EventSubscriptionCommand;
use crate::commands::event_subscription::advanced_filter::with_ranges;
use crate::commands::explain::ExplainCommand;
use crate::commands::origin_group::OriginGroupCommand;
use crate::commands::plan::PlanCommand;
use crate::commands::probe::ProbeCommand;
use crate::commands::publish::PublishCommand;
use crate::commands::recover::RecoverCommand;
use crate::commands::route::RouteCommand;
use crate::commands::serve::ServeCommand;
use crate::commands::store::StoreCommand;
use crate::commands::terminal_record::TerminalRecordCommand;
use crate::commands::token::TokenCommand;
use crate::commands::topic::TopicCommand;
use crate::failure::Failure;

/// An event grid that you run yourself: publish an event once, and every subscription it matches gets it at least once.
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version, infer_long_args = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(DevCommand),
    Serve(ServeCommand),
    Apply(ApplyCommand),
    Topic(TopicCommand),
    Domain(DomainCommand),
    DomainTopic(DomainTopicCommand),
    EventSubscription(Box<EventSubscriptionCommand>),
    OriginGroup(Box<OriginGroupCommand>),
    Route(RouteCommand),
    Probe(ProbeCommand),
    Event(EventCommand),
    Explain(ExplainCommand),
    Plan(PlanCommand),
    Publish(PublishCommand),
    DeadLetter(DeadLetterCommand),
    TerminalRecord(TerminalRecordCommand),
    Token(TokenCommand),
    Config(ConfigCommand),
    Store(StoreCommand),
    Recover(RecoverCommand),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(with_ranges(std::env::args_os())) {
        Ok(arguments) => arguments,
        // Help is printed here too.
        Err(told) => return end_with(&told),
    };
    match run(arguments.command).and_then(|()| all_printed()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error_line(&failure.to_string());
            ExitCode::from(failure.status())
        }
    }
}

/// A command whose output was lost did not do its part, whatever it did besides.
fn all_printed() -> Result<(), Failure> {
    output::lost().map_or(Ok(()), |error| {
        let message = format!("the output cannot be written: {error}");
        Err(Failure::new(message)
            .with_hint("what the command was to do is done; look at the result"))
    })
}

/// Prints why there is nothing to run: help that was asked for, or what was not understood.
fn end_with(told: &clap::Error) -> ExitCode {
    let is_lost = |error: std::io::Error| error.kind() != std::io::ErrorKind::BrokenPipe;
    if told.print().is_err_and(is_lost) {
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2))
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Dev(dev) => dev.run(),
        Command::Serve(serve) => serve.run(),
        Command::Apply(apply) => commands::run_client(apply.run()),
        Command::Topic(topic) => commands::run_client(topic.run()),
        Command::Domain(domain) => commands::run_client(domain.run()),
        Command::DomainTopic(topic) => commands::run_client(topic.run()),
        Command::EventSubscription(subscription) => commands::run_client(subscription.run()),
        Command::OriginGroup(group) => commands::run_client(group.run()),
        Command::Route(route) => commands::run_client(route.run()),
        Command::Probe(probe) => commands::run_client(probe.run()),
        Command::Event(event) => commands::run_client(event.run()),
        Command::Plan(plan) => {
            plan.run();
            Ok(())
        }
        Command::Explain(explain) => commands::run_client(explain.run()),
        Command::Publish(publish) => commands::run_client(publish.run()),
        Command::DeadLetter(letter) => commands::run_client(letter.run()),
        Command::TerminalRecord(record) => commands::run_client(record.run()),
        Command::Token(token) => commands::run_client(token.run()),
        Command::Config(config) => config.run(),
        Command::Store(store) => store.run(),
        Command::Recover(recover) => recover.run(),
    }
}
