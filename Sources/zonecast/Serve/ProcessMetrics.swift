import Foundation
import RelayServer

extension RelayMetrics {
    /// Shows what the process and its folder take: memory, descriptors, bytes on disk, free bytes.
    func showProcess(data: String, version: String) {
        show("zonecast_process_resident_bytes", "Memory of the process.") {
            // The second number of statm, in pages.
            let words = FileManager.default.contents(atPath: "/proc/self/statm").map {
                String(decoding: $0, as: UTF8.self)
            }
            let pages = words?.split(separator: " ").dropFirst().first.flatMap { Int64($0) } ?? 0
            return pages * Int64(sysconf(Int32(_SC_PAGESIZE)))
        }
        show("zonecast_process_cpu_milliseconds_total", "CPU time of the process.") {
            var usage = rusage()
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
            return Int64(seconds) * 1000 + Int64(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000
        }
        show("zonecast_process_open_descriptors", "Open files and sockets.") {
            Int64((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0)
        }
        show("zonecast_store_bytes", "Bytes of the SQLite files in the data folder.") { Self.databaseBytes(in: data) }
        show("zonecast_disk_free_bytes", "Free bytes on the data folder's disk.") {
            var status = statvfs()
            guard statvfs(data, &status) == 0 else { return 0 }
            return Int64(status.f_bavail) * Int64(status.f_frsize)
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
