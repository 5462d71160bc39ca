//! Tokio, as `loops/loops.h` says: `tokio-echo current|multi server|client ADDRESS PORT [SECONDS]`. `current` is a
//! runtime in a thread of its own, to which the main thread gives its tasks; `multi` has four workers.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Handle};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const FLOWS: u32 = 4;
const SIZE: usize = 64;
/// Seconds that a flow may take beyond the run to have its first answer.
const PATIENCE: u32 = 20;

/// A message that no other flow and no other round has.
fn message(flow: u32, round: u32) -> [u8; SIZE] {
    let mut bytes = [(flow * 31 + round) as u8; SIZE];
    bytes[..4].copy_from_slice(&flow.to_ne_bytes());
    bytes[4..8].copy_from_slice(&round.to_ne_bytes());
    bytes
}

async fn echo_stream(mut stream: TcpStream) -> Result<(), Failure> {
    let mut bytes = [0; 4096];
    stream.set_nodelay(true)?;
    loop {
        match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            size => stream.write_all(&bytes[..size]).await?,
        }
    }
}

async fn serve_streams(address: SocketAddrV4) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo_stream(stream));
    }
}

async fn serve_datagrams(address: SocketAddrV4) -> Result<(), Failure> {
    let socket = UdpSocket::bind(address).await?;
    let mut bytes = [0; 4096];
    loop {
        let (size, from) = socket.recv_from(&mut bytes).await?;
        socket.send_to(&bytes[..size], from).await?;
    }
}

async fn ask_by_stream(to: SocketAddrV4, flow: u32, rounds: Arc<[AtomicU32]>) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let mut answer = [0; SIZE];
    for round in 0.. {
        stream.write_all(&message(flow, round)).await?;
        stream.read_exact(&mut answer).await?;
        if answer != message(flow, round) {
            return Err(format!("flow {flow}: wrong answer").into());
        }
        rounds[flow as usize].fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn ask_by_datagrams(to: SocketAddrV4, flow: u32, rounds: Arc<[AtomicU32]>) -> Result<(), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let mut answer = [0; SIZE];
    if flow.is_multiple_of(2) {
        socket.connect(to).await?;
    }
    for round in 0.. {
        while answer != message(flow, round) {
            if flow.is_multiple_of(2) {
                socket.send(&message(flow, round)).await?;
            } else {
                socket.send_to(&message(flow, round), to).await?;
            }
            // What is lost is sent again.
            let _ = tokio::time::timeout(Duration::from_secs(1), socket.recv_from(&mut answer)).await;
        }
        rounds[flow as usize].fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Whatever ends a task is a failure.
fn begin(on: &Handle, task: impl Future<Output = Result<(), Failure>> + Send + 'static) {
    on.spawn(async {
        let ended = task.await;
        eprintln!("a task ended: {ended:?}");
        std::process::exit(1);
    });
}

fn client(on: &Handle, to: SocketAddrV4, seconds: u32) -> Result<(), Failure> {
    let rounds: Arc<[AtomicU32]> = (0..2 * FLOWS).map(|_| AtomicU32::new(0)).collect();
    for flow in 0..FLOWS {
        begin(on, ask_by_stream(to, flow, rounds.clone()));
        begin(on, ask_by_datagrams(to, FLOWS + flow, rounds.clone()));
    }
    let is_late = || rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) == 0);
    let mut second = 0;
    while second < seconds || is_late() && second < seconds + PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        second += 1;
    }
    let rounds: Vec<u32> = rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect();
    if let Some(flow) = rounds.iter().position(|rounds| *rounds == 0) {
        return Err(format!("flow {flow} had no answer").into());
    }
    println!("round trips/s {}", rounds.iter().sum::<u32>() / seconds);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, role, address, port, seconds @ ..] = words.as_slice() else {
        return Err("usage: tokio-echo current|multi server|client ADDRESS PORT [SECONDS]".into());
    };
    let address = SocketAddrV4::new(address.parse()?, port.parse()?);
    let handle = if runtime == "multi" {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let handle = runtime.handle().clone();
        // It stays until the process ends.
        std::mem::forget(runtime);
        handle
    } else {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    };
    std::thread::sleep(Duration::from_millis(50));
    if role == "server" {
        begin(&handle, serve_streams(address));
        begin(&handle, serve_datagrams(address));
        loop {
            std::thread::park();
        }
    }
    client(&handle, address, seconds.first().map_or(Ok(1), |seconds| seconds.parse())?)?;
    std::process::exit(0);
}
