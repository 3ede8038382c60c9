import Logging

let quiet = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
