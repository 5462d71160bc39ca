//! The end that answers. One measurement at a time: the processor time that it tells is that of the whole process.

use super::connection::{Address, Listener, Stream};
use super::words::{self, Asked, Counted, LAST, NEXT, Test};
use std::io::{Error, ErrorKind, Result};
use std::process::ExitCode;
use std::time::Duration;

/// For the words around a test, so that who connects and says nothing does not keep others away.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(address: &Address, spins: bool, once: bool) -> std::result::Result<ExitCode, String> {
    let listener = Listener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let own = listener.address().map_err(|error| error.to_string())?;
    println!("serving at {own}");
    // What a connection began with that belonged to nothing.
    let mut next = None;
    loop {
        let (stream, begun) = match next.take() {
            Some(left_over) => left_over,
            None => match listener.accept(spins) {
                Ok(stream) => (stream, Vec::new()),
                Err(error) => return Err(format!("accept: {error}")),
            },
        };
        let mut session = Session { listener: &listener, spins, left_over: None };
        match session.run(stream, &begun) {
            Ok(()) if once => return Ok(ExitCode::SUCCESS),
            Ok(()) => {}
            Err(reason) => eprintln!("sidestep perf: {reason}"),
        }
        next = session.left_over;
    }
}

/// One measurement.
struct Session<'l> {
    listener: &'l Listener,
    spins: bool,
    /// Another client's connection, and what was read of it.
    left_over: Option<(Stream, Vec<u8>)>,
}

impl Session<'_> {
    fn run(&mut self, mut stream: Stream, begun: &[u8]) -> std::result::Result<(), String> {
        let text = |error: Error| error.to_string();
        stream.set_patience(Some(PATIENCE)).map_err(text)?;
        let asked = words::hear(&mut stream, begun)?;
        stream.set_patience(None).map_err(text)?;
        let before = sys::clock::process_time();
        let sizes = stream.sizes();
        words::tell_ready(&mut stream, sizes).map_err(text)?;
        let counted = match asked.test {
            Test::Stream => drain(&mut stream, asked),
            Test::Requests => answer(&mut stream, asked),
            Test::Connections => self.connections(asked),
        };
        let mut counted = counted.map_err(|error| format!("{}: {error}", asked.test.name()))?;
        counted.processor_ns = sys::clock::process_time() - before;
        words::tell_done(&mut stream, counted).map_err(text)
    }

    /// A connection for each request, until one says that it is the last.
    fn connections(&mut self, asked: Asked) -> Result<Counted> {
        let mut counted = Counted::default();
        let (mut request, response) = (vec![0; asked.request], vec![0; asked.response]);
        loop {
            let mut stream = self.listener.accept(self.spins)?;
            stream.set_patience(Some(PATIENCE))?;
            stream.receive(&mut request[..1])?;
            match request[0] {
                NEXT => stream.receive(&mut request[1..])?,
                LAST => return Ok(counted),
                other => {
                    self.left_over = Some((stream, vec![other]));
                    return Err(Error::other("the client has gone"));
                }
            }
            stream.send(&response)?;
            counted.transactions += 1;
            counted.bytes += request.len() as u64;
        }
    }
}

fn drain(stream: &mut Stream, asked: Asked) -> Result<Counted> {
    let mut counted = Counted::default();
    let mut into = vec![0; asked.request.max(1 << 16)];
    loop {
        match stream.receive_some(&mut into)? {
            0 => return Ok(counted),
            count => counted.bytes += count as u64,
        }
    }
}

fn answer(stream: &mut Stream, asked: Asked) -> Result<Counted> {
    let mut counted = Counted::default();
    let (mut request, response) = (vec![0; asked.request], vec![0; asked.response]);
    loop {
        match stream.receive(&mut request) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(counted),
            Err(error) => return Err(error),
        }
        stream.send(&response)?;
        counted.transactions += 1;
        counted.bytes += request.len() as u64;
    }
}
