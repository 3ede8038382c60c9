import Foundation
import Logging
import RelayAPI
import RelayCore
import RelayServer
import ServiceLifecycle

/// This relay as one of several that serve the same stores.
///
/// A relay on a data folder is the only one and has none.
final class RelayNode: Sendable {
    let bus: NodeNoticeBus
    private let link: any NodeLink
    private let logger: Logger
    private let sweeps: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    private struct Channel: NoticeChannel {
        let link: any NodeLink
        func send(_ envelope: NoticeEnvelope) { link.send(envelope.encoded) }
    }

    /// Returns `nil` if the home's stores are served by one relay at a time.
    convenience init?(_ home: any RelayHome, name: String, logger: Logger) {
        let run = UInt64.random(in: 1 ... .max)
        guard let link = home.link(of: name, run: run, log: { logger.warning("\($0)") }) else { return nil }
        self.init(link, run: run, logger: logger)
    }

    init(_ link: any NodeLink, run: UInt64, logger: Logger) {
        // One sweep serves all requests that come before it begins.
        let (sweeps, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.link = link
        self.logger = logger
        self.sweeps = sweeps
        self.wake = wake
        bus = NodeNoticeBus(node: NodeID(link.node), run: run, channel: Channel(link: link)) { wake.yield() }
    }

    /// Begins to receive what the other nodes send.
    ///
    /// Call before the first request.
    func start() throws {
        let bus = bus
        let wake = wake
        do throws(DirectoryError) {
            try link.start(
                NodeLinkEvents(
                    received: { bytes in if let envelope = NoticeEnvelope(bytes) { bus.receive(envelope) } },
                    wasInterrupted: {
                        bus.messagesWereLost()
                        wake.yield()
                    },
                    nodesChanged: { live in bus.nodesChanged(to: Set(live.map { NodeID($0) })) }
                )
            )
        } catch {
            guard case .unavailable(let sentence) = error else { throw error }
            throw CommandFailure(.failed, sentence)
        }
    }

    func stop() { link.stop() }

    /// Whether this relay may serve: its database has answered within the lease.
    var isReady: Bool { link.state.hasLease }

    /// Runs the sweeps until the relay stops.
    func service(sweeping hub: NoticeHub, of stores: any StoreCatalog) -> any Service {
        SweepService(node: self, sweep: NoticeSweep(bus: bus, hub: hub, stores: stores), stores: stores)
    }

    func show(in metrics: RelayMetrics) {
        metrics.show("zonecast_nodes", "Live nodes, as this one knows.") { [link] in Double(link.state.liveNodes.count)
        }
        metrics.show("zonecast_node_lease", "1 while the database has answered within the lease.") { [link] in
            link.state.hasLease ? 1 : 0
        }
        metrics.show("zonecast_node_listening", "1 while messages of other nodes arrive.") { [link] in
            link.state.isListening ? 1 : 0
        }
        metrics.show(
            "zonecast_node_clock_offset_seconds",
            "How far this machine's clock is ahead of the database's."
        ) { [link] in link.state.clockOffset / .seconds(1) }
        metrics.show(
            "zonecast_node_link_interruptions_total",
            "How often the connection for messages of other nodes was lost.",
            kind: .counter
        ) { [link] in Double(link.state.interruptions) }
        metrics.show("zonecast_node_messages_total", "Messages sent to other nodes.", kind: .counter) { [link] in
            Double(link.state.sentMessages)
        }
    }

    /// Warns of a clock that differs from the database's, since tokens and times are compared between nodes.
    func checkClock() {
        let offset = link.state.clockOffset
        guard abs(offset / .seconds(1)) > 5 else { return }
        let seconds = Int((offset / .seconds(1)).rounded())
        logger.warning(
            "The clock of this machine is \(abs(seconds)) s \(seconds > 0 ? "ahead of" : "behind") the database's. Synchronize both with NTP."
        )
    }

    private struct SweepService: Service {
        let node: RelayNode
        let sweep: NoticeSweep
        let stores: any StoreCatalog

        func run() async throws {
            await cancelWhenGracefulShutdown {
                await withTaskGroup(of: Void.self) { group in
                    group.addTask {
                        while (try? await Task.sleep(for: NoticeSweep.interval)) != nil { node.wake.yield() }
                    }
                    group.addTask(executorPreference: stores.executor) {
                        var rounds = 0
                        for await _ in node.sweeps {
                            sweep.sweep()
                            if rounds.isMultiple(of: 30) { node.checkClock() }
                            rounds += 1
                            // However many messages ask for one: a sweep reads from every store.
                            try? await Task.sleep(for: .milliseconds(100))
                        }
                    }
                    await group.next()
                    group.cancelAll()
                }
            }
        }
    }
}
