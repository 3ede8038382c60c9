import Foundation
import RelayAPI
import RelayServer
import RelayStore

extension RelayMetrics {
    /// Shows who listens, what was sent, and what waits.
    func show(_ relay: Relay, _ hub: NoticeHub, _ stores: StoreFolder) {
        show("zonecast_notice_connections", "Devices that listen for notices.", count: { hub.connectionCount })
        show("zonecast_push_devices", "Of those, devices that push services wake.", count: { relay.pushDeviceCount })
        show("zonecast_notices_sent_total", "Notices written to devices' sockets.", kind: .counter) {
            Double(hub.noticeCounts.sent)
        }
        show("zonecast_notices_merged_total", "Notices that became one with a later one.", kind: .counter) {
            Double(hub.noticeCounts.merged)
        }
        show("zonecast_notices_dropped_total", "Notices that waited when their socket ended.", kind: .counter) {
            Double(hub.noticeCounts.dropped)
        }
        show("zonecast_stores_open", "Stores of containers' environments that are open.", count: { stores.counts.open })
        show("zonecast_stores_closed_total", "Stores that were closed to make room for others.", kind: .counter) {
            Double(stores.counts.closed)
        }
        show("zonecast_writer_queue", "Writes that wait for their commit.", count: { stores.waitingWrites })
        show("zonecast_notice_queue", "Notices that wait for slow readers.", count: { hub.noticeCounts.waiting })
        show(
            "zonecast_query_queue",
            "Commits that wait to be matched with query subscriptions.",
            count: {
                hub.unmatchedCommits
            }
        )
    }

    /// Shows what the process and its folder take: memory, descriptors, bytes on disk, free bytes.
    func showProcess(data: String, version: String) {
        // No limit at all is none that a number shows.
        let mostDescriptors = min(Descriptors.limit, 1 << 31)
        show("zonecast_build_info", "Always 1; its label says which version runs.", labels: [("version", version)]) {
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
            // In millionths of a second, by POSIX wherever it is asked.
            Double(clock()) / 1_000_000
        }
        show("zonecast_process_open_descriptors", "Open files and sockets.") {
            // Where none is left to look with, all are in use.
            Double(Descriptors.count ?? mostDescriptors)
        }
        show("zonecast_process_max_descriptors", "The most files and sockets that the system lets it open.") {
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
            return files.filter { $0.contains(".sqlite") }.reduce(sum) { sum, file in
                var status = stat()
                return stat("\(place)/\(file)", &status) == 0 ? sum + Int64(status.st_size) : sum
            }
        }
    }
}
