@_exported public import ZoneKit
