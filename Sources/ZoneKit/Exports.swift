// CloudKit brings Foundation with it, and programs count on that.
@_exported public import Foundation
