import Foundation

/// The path of a folder for one test, removed when this object is deinitialized.
///
/// The test creates the folder.
package final class ScratchFolder {
    package let path = NSTemporaryDirectory() + "zonecast-\(UUID().uuidString)"

    package init() {}

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
