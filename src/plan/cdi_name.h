/*
 * The names of CDI devices: "<vendor>/<class>=<device>". Allocate returns them, and node/cdi/cdi.h writes the specifications
 * that define them. They are those of NVIDIA's k8s-device-plugin v0.20, except for the kind mps, which is ours.
 */
#pragma once

#define CDI_VENDOR "k8s.device-plugin.nvidia.com"
#define CDI_CLASS_GPU "gpu"
#define CDI_CLASS_IMEX "imex-channel"
#define CDI_CLASS_GDRCOPY "gdrcopy"
#define CDI_CLASS_GDS "gds"
#define CDI_CLASS_MOFED "mofed"

#define CDI_VENDOR_MPS "nvidia.com"
#define CDI_CLASS_MPS "mps"
#define CDI_KIND_MPS CDI_VENDOR_MPS "/" CDI_CLASS_MPS
