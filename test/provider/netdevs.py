"""A RoCE port's GIDs that are IP addresses are those of the network interface that /sys names for their rows."""
import fcntl
import socket
import struct
import subprocess

SIOCGIFADDR, SIOCGIFNETMASK = 0x8915, 0x891b  # <linux/sockios.h>


def strangers(tool, device, rows):
    """The rows whose IPv4-mapped address is not in the network of their interface."""
    wrong = []
    for row in rows:
        port = f"/sys/class/infiniband/{device}/ports/1"
        gid, name = subprocess.run(tool + ["cat", f"{port}/gids/{row}", f"{port}/gid_attrs/ndevs/{row}"], check=True, timeout=60,
                                   stdout=subprocess.PIPE, text=True).stdout.split()
        address = int(gid.replace(":", "")[24:], 16)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            own, mask = (int.from_bytes(fcntl.ioctl(s, what, struct.pack("256s", name.encode()))[20:24], "big")
                         for what in [SIOCGIFADDR, SIOCGIFNETMASK])
        if (address ^ own) & mask:
            print(f"row {row} of {device}: {gid}, but {name}", flush=True)
            wrong.append(row)
    return wrong
