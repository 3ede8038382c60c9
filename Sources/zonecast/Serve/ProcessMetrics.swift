import Foundation
import RelayAPI
import RelayCore
import RelayServer
import RelaySystem

extension RelayMetrics {
    /// Registers metrics of connections, notices and stores.
    func show(_ relay: Relay, _ hub: NoticeHub, _ stores: any ServedStores) {
        show("zonecast_notice_connections", "Devices connected for notices.", count: { hub.connectionCount })
        show("zonecast_push_devices", "Devices registered with a push service.", count: { relay.pushDeviceCount })
        show("zonecast_notices_sent_total", "Notices written to devices' sockets.", kind: .counter) {
            Double(hub.noticeCounts.sent)
        }
        show("zonecast_notices_merged_total", "Notices merged with a later one.", kind: .counter) {
            Double(hub.noticeCounts.merged)
        }
        show("zonecast_notices_dropped_total", "Notices dropped because their socket closed.", kind: .counter) {
            Double(hub.noticeCounts.dropped)
        }
        show("zonecast_stores_open", "Open stores (one per container and environment).", count: { stores.counts.open })
        show("zonecast_stores_closed_total", "Stores closed to make room for others.", kind: .counter) {
            Double(stores.counts.closed)
        }
        show("zonecast_writer_queue", "Writes waiting for their commit.", count: { stores.waitingWrites })
        show("zonecast_notice_queue", "Notices waiting for slow clients.", count: { hub.noticeCounts.waiting })
        show(
            "zonecast_query_queue",
            "Commits waiting to be matched with query subscriptions.",
            count: {
                hub.unmatchedCommits
            }
        )
    }

    /// Registers metrics of the process and its folder: memory, descriptors, bytes on disk, free bytes.
    func showProcess(data: String, version: String) {
        // "Unlimited" is a number too large to be useful in a chart.
        let mostDescriptors = min(Descriptors.limit, 1 << 31)
        show("zonecast_build_info", "Always 1; the label is the running version.", labels: [("version", version)]) {
            1
        }
        show("zonecast_process_resident_bytes", "Memory of the process.") {
            // The second number of statm, in pages.
            let words = FileManager.default.contents(atPath: "/proc/self/statm").map {
                String(decoding: $0, as: UTF8.self)
            }
            let pages = words?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0
            return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
        }
        show("zonecast_process_cpu_seconds_total", "CPU time of the process.", kind: .counter) {
            // POSIX defines CLOCKS_PER_SEC as 1,000,000 on all systems.
            Double(clock()) / 1_000_000
        }
        show("zonecast_process_open_descriptors", "Open files and sockets.") {
            // Reading the count needs a descriptor; if none is free, all are in use.
            Double(Descriptors.count ?? mostDescriptors)
        }
        show("zonecast_process_max_descriptors", "The limit of open files and sockets.") {
            Double(mostDescriptors)
        }
        show("zonecast_store_bytes", "Bytes of the SQLite files in the data folder.") {
            Double(Self.databaseBytes(in: data))
        }
        show("zonecast_disk_free_bytes", "Free bytes on the data folder's disk.") {
            Double(FreeSpace.bytes(in: data) ?? 0)
        }
    }

    private static func databaseBytes(in data: String) -> Int64 {
        let containers = "\(data)/containers"
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []
        let places = folders.map { "\(containers)/\($0)" } + [data]
        return places.reduce(0) { sum, place in
            let files = (try? FileManager.default.contentsOfDirectory(atPath: place)) ?? []
            return files.filter { $0.contains(".sqlite") }
                .reduce(sum) { $0 + (FileStatus(path: "\(place)/\($1)")?.size ?? 0) }
        }
    }
}
